// A second reading of the rules for answers: on the whole text at once, looking ahead as far as it likes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/argument_coercion.h"
#include "text/output_tags.h"
#include "text/python_json.h"
#include "text/python_text.h"
#include "text/tag_tokenizer.h"
#include "text/tool_schema.h"

namespace glint::test {

struct ReferenceCall {
  std::string name;
  std::vector<std::pair<std::string, std::string>> pairs;  // key, value as JSON text; repeated keys once
};

struct ReferenceAnswer {
  std::string reasoning;
  std::string content;
  std::vector<ReferenceCall> calls;
};

class ReferenceParser {
 public:
  ReferenceParser(std::string_view text, bool is_cut, const ToolSet& tools) : is_cut_(is_cut), tools_(tools) {
    split(text);
  }

  ReferenceAnswer parse() {
    bool in_reasoning = true;
    size_t at = 0;
    while (at < parts_.size()) {
      const Part& part = parts_[at];
      if (part.tag == OutputTag::call_open) {
        if (in_reasoning) out_.reasoning = python_rstrip(out_.reasoning);
        in_reasoning = false;
        at = call(at + 1);
        continue;
      }
      ++at;
      if (part.tag == OutputTag::think_open) {
        in_reasoning = true;
      } else if (part.tag == OutputTag::think_close) {
        if (in_reasoning) out_.reasoning = python_rstrip(out_.reasoning);
        in_reasoning = false;
      } else if (in_reasoning) {
        out_.reasoning += part.text;
      } else if (part.tag != OutputTag::call_close) {
        out_.content += part.text;
      }
    }
    out_.reasoning = python_rstrip(out_.reasoning);
    if (!out_.calls.empty()) out_.content = python_strip(out_.content);
    return out_;
  }

 private:
  struct Part {
    OutputTag tag = OutputTag::none;
    std::string text;
  };

  void split(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
      const auto tag = TagTokenizer::tag_at(text.substr(at));
      const std::string_view piece = text.substr(at, tag ? tag->bytes : 1);
      at += piece.size();
      Part part{OutputTag::none, std::string(piece)};
      for (size_t i = 0; i < kOutputTags; ++i) {
        if (tag_text(static_cast<OutputTag>(i)) == piece) part.tag = static_cast<OutputTag>(i);
      }
      const bool joins =
          part.tag == OutputTag::none && !parts_.empty() && parts_.back().tag == OutputTag::none;
      if (joins) {
        parts_.back().text += part.text;
      } else {
        parts_.push_back(part);
      }
    }
  }

  OutputTag tag(size_t at) const { return at < parts_.size() ? parts_[at].tag : OutputTag::none; }
  bool is_blank_part(size_t at) const { return tag(at) == OutputTag::none && is_blank(parts_[at].text); }
  size_t skip_blank(size_t at) const {
    while (at < parts_.size() && is_blank_part(at)) ++at;
    return at;
  }
  std::string joined(size_t from, size_t to) const {
    std::string out;
    for (size_t at = from; at < to; ++at) out += parts_[at].text;
    return out;
  }

  /// Reads the call whose <tool_call> stands before `at`; returns where ordinary output goes on.
  size_t call(size_t at) {
    ReferenceCall call;
    bool seen = false;  // an <arg_value> has come
    std::string name;
    for (; at < parts_.size() && tag(at) != OutputTag::key_open && tag(at) != OutputTag::call_close; ++at) {
      if (tag(at) == OutputTag::call_open) return at;
      if (tag(at) == OutputTag::none) name += parts_[at].text;
    }
    call.name = python_strip(name);
    const bool known = !call.name.empty() && tools_.contains(call.name);
    const auto leave = [&](bool ended, size_t next) {
      if (known && (ended || seen)) {
        out_.content = python_rstrip(out_.content);
        out_.calls.push_back(call);
      }
      return next;
    };
    while (at < parts_.size()) {
      // At a key, an end or another call.
      if (tag(at) == OutputTag::call_close) return leave(true, at + 1);
      if (tag(at) == OutputTag::call_open) return leave(false, at);
      std::string key;
      for (++at; at < parts_.size(); ++at) {
        const OutputTag next = tag(at);
        if (next == OutputTag::key_open) {
          key.clear();
        } else if (next == OutputTag::none) {
          key += parts_[at].text;
        } else if (next != OutputTag::think_open && next != OutputTag::think_close &&
                   next != OutputTag::value_close) {
          break;
        }
      }
      if (at == parts_.size() || tag(at) == OutputTag::call_close || tag(at) == OutputTag::call_open)
        continue;
      size_t value = at;
      bool recovered = false;
      if (tag(at) == OutputTag::key_close) {
        value = ++at;
        while (value < parts_.size() &&
               (is_blank_part(value) || tag(value) == OutputTag::key_close ||
                tag(value) == OutputTag::think_open || tag(value) == OutputTag::think_close)) {
          ++value;
        }
        if (value == parts_.size()) {
          at = value;
          continue;
        }
        recovered = tag(value) == OutputTag::none || tag(value) == OutputTag::value_close;
        if (!recovered && tag(value) != OutputTag::value_open) {
          at = value;
          continue;
        }
      }
      std::string before;  // of a value without <arg_value>: the white space in front of it belongs to it
      if (recovered) {
        for (size_t i = at; i < value; ++i) before += tag(i) == OutputTag::none ? parts_[i].text : "";
        // A late <arg_value>, with nothing but text and harmless tags before it, makes that text junk.
        size_t open = value;
        while (open < parts_.size() && tag(open) != OutputTag::value_open &&
               tag(open) != OutputTag::value_close && tag(open) != OutputTag::call_close) {
          ++open;
        }
        if (tag(open) == OutputTag::value_open && open < parts_.size()) {
          recovered = false;
          value = open;
        }
      }
      if (!recovered) {
        ++value;
        seen = true;
      }
      size_t next = 0;
      bool complete = false;
      bool call_over = false;
      const size_t end = value_end(value, next, complete, call_over);
      if (!complete) return leave(false, parts_.size());
      // Without an <arg_value> it takes what follows the value to make the call certain.
      seen = seen || !is_cut_ || next < parts_.size();
      add(call, std::string(python_strip(key)), (recovered ? before : std::string()) + joined(value, end));
      if (call_over) return leave(true, next);
      at = next;
    }
    // The answer ends inside the call.
    return leave(!is_cut_, parts_.size());
  }

  /// Where the value that starts at `from` ends; `next` is what comes after it.
  size_t value_end(size_t from, size_t& next, bool& complete, bool& call_over) const {
    complete = true;
    size_t last_close = parts_.size();
    for (size_t at = from; at < parts_.size(); ++at) {
      if (tag(at) != OutputTag::value_close) continue;
      last_close = at;
      next = skip_blank(at + 1);
      if (next == parts_.size() || tag(next) == OutputTag::key_open || tag(next) == OutputTag::call_close)
        return at;
    }
    complete = !is_cut_;
    call_over = true;
    const bool has_close = last_close < parts_.size();
    const size_t search = has_close ? last_close + 1 : from;
    if (has_close && tag(skip_blank(search)) == OutputTag::call_open) {
      next = skip_blank(search);
      return last_close;
    }
    size_t final = parts_.size();
    for (size_t at = search; at < parts_.size(); ++at) {
      if (tag(at) != OutputTag::call_close) continue;
      final = at;
      const size_t behind = skip_blank(at + 1);
      if (behind == parts_.size() || tag(behind) == OutputTag::call_open) break;
    }
    next = std::min(final + 1, parts_.size());
    return has_close ? last_close : final;
  }

  void add(ReferenceCall& call, const std::string& key, const std::string& raw) const {
    const std::string value = coerce_argument(raw, tools_.types_of(call.name, key));
    for (auto& [name, old] : call.pairs) {
      if (name == key) {
        old = value;
        return;
      }
    }
    call.pairs.emplace_back(key, value);
  }

  bool is_cut_;
  const ToolSet& tools_;
  std::vector<Part> parts_;
  ReferenceAnswer out_;
};

}  // namespace glint::test
