#include "server/logprobs_json.h"

#include <algorithm>

#include "base/error.h"

namespace glint {

namespace {

constexpr float kLeast = -9999.0F;

double shown(float logprob) {
  return static_cast<double>(std::max(logprob, kLeast));
}

int64_t code_points(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
}

std::span<const TokenLogprob> alternatives_of(const Logprobs& logprobs, size_t row, int64_t top) {
  const auto width = static_cast<size_t>(logprobs.top);
  const auto wanted = top == kAllLogprobs ? width : std::min(width, static_cast<size_t>(top));
  return std::span(logprobs.alternatives).subspan(row * width, wanted);
}

}  // namespace

LogprobsWriter::LogprobsWriter(std::shared_ptr<const Tokenizer> tokenizer, LogprobsStyle style)
    : tokenizer_(std::move(tokenizer)), style_(style), detokenizer_(tokenizer_, style.skip_special_tokens) {}

std::string LogprobsWriter::text_of(TokenId id) const {
  if (style_.tokens_as_ids) return cat("token_id:", id);
  return tokenizer_->decode({&id, 1}, /*skip_special_tokens=*/false);
}

OrderedJson LogprobsWriter::chat_entry(const TokenLogprob& token) const {
  OrderedJson entry;
  entry["token"] = text_of(token.id);
  entry["logprob"] = shown(token.logprob);
  OrderedJson& bytes = entry["bytes"] = OrderedJson::array();
  for (const char byte : tokenizer_->token_bytes(token.id)) bytes.push_back(static_cast<unsigned char>(byte));
  return entry;
}

void LogprobsWriter::add_completion(OrderedJson& out, TokenId token, OrderedJson logprob, OrderedJson top) {
  if (out.is_null()) {
    for (const char* name : {"text_offset", "token_logprobs", "tokens", "top_logprobs"}) {
      out[name] = OrderedJson::array();
    }
  }
  out["text_offset"].push_back(characters_);
  out["token_logprobs"].push_back(std::move(logprob));
  out["tokens"].push_back(text_of(token));
  out["top_logprobs"].push_back(std::move(top));
  characters_ += code_points(detokenizer_.push(token));
}

OrderedJson LogprobsWriter::write(const Logprobs& logprobs, int64_t top) {
  OrderedJson out;
  for (size_t row = 0; row < logprobs.chosen.size(); ++row) {
    const TokenLogprob& chosen = logprobs.chosen[row];
    const std::span<const TokenLogprob> alternatives = alternatives_of(logprobs, row, top);
    if (style_.endpoint == Endpoint::chat) {
      OrderedJson entry = chat_entry(chosen);
      OrderedJson& list = entry["top_logprobs"] = OrderedJson::array();
      for (const TokenLogprob& other : alternatives) list.push_back(chat_entry(other));
      out["content"].push_back(std::move(entry));
      continue;
    }
    OrderedJson map;
    map[text_of(chosen.id)] = shown(chosen.logprob);
    for (const TokenLogprob& other : alternatives) {
      const std::string text = text_of(other.id);
      if (!map.contains(text)) map[text] = shown(other.logprob);
    }
    add_completion(out, chosen.id, shown(chosen.logprob), std::move(map));
  }
  return out;
}

OrderedJson LogprobsWriter::write_unknown(TokenId token) {
  OrderedJson out;
  add_completion(out, token, nullptr, nullptr);
  return out;
}

void append_logprobs(OrderedJson& all, OrderedJson next) {
  if (next.is_null()) return;
  if (all.is_null()) {
    all = std::move(next);
    return;
  }
  for (auto& [name, list] : next.items()) {
    OrderedJson& target = all[name];
    for (OrderedJson& value : list) target.push_back(std::move(value));
  }
}

OrderedJson prompt_logprobs_json(const Logprobs& logprobs, int64_t top, const Tokenizer& tokenizer) {
  OrderedJson all = OrderedJson::array({nullptr});
  for (size_t row = 0; row < logprobs.chosen.size(); ++row) {
    OrderedJson entry;
    const auto add = [&](const TokenLogprob& token, int64_t rank) {
      const std::string key = std::to_string(token.id);
      if (entry.contains(key)) return;
      OrderedJson& value = entry[key];
      value["logprob"] = shown(token.logprob);
      value["rank"] = rank;
      value["decoded_token"] = tokenizer.decode({&token.id, 1}, /*skip_special_tokens=*/false);
    };
    add(logprobs.chosen[row], logprobs.ranks[row]);
    int64_t rank = 0;
    for (const TokenLogprob& other : alternatives_of(logprobs, row, top)) add(other, ++rank);
    all.push_back(std::move(entry));
  }
  return all;
}

}  // namespace glint
