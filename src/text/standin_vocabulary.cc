#include "text/standin_vocabulary.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "base/utf8.h"
#include "text/pretokenizer.h"
#include "text/unicode_classes.h"

namespace glint {

namespace {

using Index = uint32_t;
using Pair = std::pair<Index, Index>;

/// Grows a vocabulary token by token up to its size.
class Builder {
 public:
  explicit Builder(size_t tokens_max) : tokens_max_(tokens_max) {
    vocabulary_.tokens.reserve(tokens_max);
    index_.reserve(tokens_max * 2);
    for (unsigned byte = 0; byte < 256; ++byte) {
      const char one = static_cast<char>(static_cast<unsigned char>(byte));
      index_.emplace(std::string(1, one), byte);
      vocabulary_.tokens.emplace_back(1, one);
    }
  }

  [[nodiscard]] bool full() const { return vocabulary_.tokens.size() >= tokens_max_; }
  [[nodiscard]] const std::string& text(Index token) const { return vocabulary_.tokens[token]; }

  /// The token that left and right make, added if it is new and there is room.
  Index join(Index left, Index right) {
    std::string joined = text(left) + text(right);
    const auto found = index_.find(joined);
    if (found != index_.end()) return found->second;
    if (full()) return left;
    const auto token = static_cast<Index>(vocabulary_.tokens.size());
    index_.emplace(joined, token);
    vocabulary_.tokens.push_back(std::move(joined));
    vocabulary_.merges.emplace_back(left, right);
    return token;
  }

  /// A token for the whole text, joined from the left. Only for text none of whose parts can be refused.
  Index spell(std::string_view text) {
    Index token = static_cast<unsigned char>(text[0]);
    for (const char byte : text.substr(1)) token = join(token, static_cast<unsigned char>(byte));
    return token;
  }

  StandinVocabulary take() { return std::move(vocabulary_); }

 private:
  size_t tokens_max_;
  StandinVocabulary vocabulary_;
  std::unordered_map<std::string, Index> index_;
};

/// Byte-pair encoding as it is learned: again and again the most frequent pair of neighbours becomes a token.
class Trainer {
 public:
  Trainer(std::string_view text, Builder& builder) : builder_(builder) {
    std::vector<uint32_t> ends;
    make_pretokenizer(kGlmPattern, "stand-in")->split(text, ends);
    std::map<std::string_view, int64_t> pieces;
    uint32_t start = 0;
    for (const uint32_t end : ends) {
      ++pieces[text.substr(start, end - start)];
      start = end;
    }
    for (const auto& [piece, count] : pieces) {
      Word word{{}, count};
      for (const char byte : piece) word.symbols.push_back(static_cast<unsigned char>(byte));
      words_.push_back(std::move(word));
      count_pairs(words_.back(), 1);
    }
  }

  void run() {
    while (!builder_.full()) {
      Pair best{};
      int64_t best_count = 0;
      for (const auto& [pair, count] : counts_) {  // in the order of pairs, so that ties go to the lowest
        if (count > best_count) {
          best = pair;
          best_count = count;
        }
      }
      if (best_count == 0) return;
      merge(best, builder_.join(best.first, best.second));
    }
  }

 private:
  struct Word {
    std::vector<Index> symbols;
    int64_t count;
  };

  void count_pairs(const Word& word, int sign) {
    for (size_t i = 0; i + 1 < word.symbols.size(); ++i) {
      const auto at = counts_.try_emplace({word.symbols[i], word.symbols[i + 1]}, 0).first;
      at->second += sign * word.count;
      if (at->second == 0) counts_.erase(at);
    }
  }

  void merge(Pair pair, Index joined) {
    for (Word& word : words_) {
      const auto starts_pair = [&](size_t i) {
        return i + 1 < word.symbols.size() && word.symbols[i] == pair.first &&
               word.symbols[i + 1] == pair.second;
      };
      size_t at = 0;
      while (at < word.symbols.size() && !starts_pair(at)) ++at;
      if (at == word.symbols.size()) continue;
      count_pairs(word, -1);
      size_t out = at;
      for (; at < word.symbols.size(); ++out) {
        const bool here = starts_pair(at);
        word.symbols[out] = here ? joined : word.symbols[at];
        at += here ? 2 : 1;
      }
      word.symbols.resize(out);
      count_pairs(word, 1);
    }
  }

  Builder& builder_;
  std::vector<Word> words_;
  std::map<Pair, int64_t> counts_;
};

/// 00 to 99 and 000 to 999: the pattern cuts digits into groups of three.
void add_digit_groups(Builder& builder) {
  for (Index a = '0'; a <= '9'; ++a) {
    for (Index b = '0'; b <= '9'; ++b) builder.join(a, b);
  }
  for (Index a = '0'; a <= '9'; ++a) {
    for (Index b = '0'; b <= '9'; ++b) {
      for (Index c = '0'; c <= '9'; ++c) builder.join(builder.join(a, b), c);
    }
  }
}

/// Runs of one character, as in indentation and rules.
void add_runs(Builder& builder) {
  for (const char c : std::string_view(" \n\t=-*#_.~/")) {
    const auto one = static_cast<Index>(static_cast<unsigned char>(c));
    Index run = one;
    for (int length = 2; length <= 64; ++length) run = builder.join(run, one);
  }
}

struct Block {
  char32_t first, last;
};

/// One token for each assigned character; where words begin with a space, one with the space too.
void add_characters(Builder& builder) {
  static constexpr Block kBlocks[] = {
      {0xA0, 0x24F},    {0x370, 0x3FF},     {0x400, 0x52F},     {0x5D0, 0x5EA},     {0x620, 0x64A},
      {0x904, 0x939},   {0xE01, 0xE5B},     {0x1E00, 0x1EFF},   {0x2010, 0x2044},   {0x20A0, 0x20C0},
      {0x2190, 0x21FF}, {0x2200, 0x22FF},   {0x2500, 0x257F},   {0x25A0, 0x25FF},   {0x2600, 0x27BF},
      {0x3001, 0x303F}, {0x3041, 0x3096},   {0x30A1, 0x30FF},   {0x4E00, 0x9FA5},   {0xAC00, 0xD7A3},
      {0xFF01, 0xFF5E}, {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF},
  };
  const UnicodeClasses& classes = UnicodeClasses::get();
  for (const Block& block : kBlocks) {
    for (char32_t code = block.first; code <= block.last && !builder.full(); ++code) {
      if (classes.category(code) == GeneralCategory::Cn) continue;
      std::string bytes;
      append_utf8(bytes, code);
      const Index character = builder.spell(bytes);
      if (classes.char_class(code) == CharClass::letter) builder.join(' ', character);
    }
  }
}

/// Words that nobody says, in the order of their syllables: there are enough for any size.
void add_invented_words(Builder& builder) {
  std::vector<Index> syllables;
  for (const std::string_view onset :
       {"b", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "z"}) {
    for (const std::string_view vowel : {"a", "e", "i", "o", "u"}) {
      syllables.push_back(builder.join(builder.spell(onset), builder.spell(vowel)));
    }
  }
  std::vector<Index> words = syllables;
  while (!builder.full()) {
    std::vector<Index> longer;
    for (const Index word : words) {
      for (const Index syllable : syllables) {
        if (builder.full()) return;
        longer.push_back(builder.join(word, syllable));
        builder.join(builder.join(' ', word), syllable);
      }
    }
    words = std::move(longer);
  }
}

}  // namespace

StandinVocabulary make_standin_vocabulary(size_t tokens) {
  GLINT_CHECK(tokens >= 256);
  Builder builder(tokens);
  Trainer(standin_training_text(), builder).run();
  add_digit_groups(builder);
  add_runs(builder);
  add_characters(builder);
  add_invented_words(builder);
  return builder.take();
}

}  // namespace glint
