#include "text/output_stream.h"

#include <utility>

#include "base/error.h"

namespace glint {

OutputStream::OutputStream(std::shared_ptr<const Tokenizer> tokenizer, std::shared_ptr<const OutputTags> tags,
                           OutputStreamOptions options)
    : tokenizer_(std::move(tokenizer)),
      tags_(std::move(tags)),
      options_(std::move(options)),
      detokenizer_(tokenizer_, options_.skip_special_tokens),
      parser_(options_.parser) {
  GLINT_CHECK(options_.mode == OutputMode::text || tags_ != nullptr);
  if (options_.stop != nullptr && options_.stop->empty()) options_.stop = nullptr;
}

std::vector<OutputDelta> OutputStream::push(std::span<const TokenId> tokens) {
  std::vector<OutputDelta> out;
  for (const TokenId token : tokens) {
    if (stopped_) break;
    accept(token, out);
  }
  return out;
}

void OutputStream::accept(TokenId token, std::vector<OutputDelta>& out) {
  ++tokens_;
  std::string text = detokenizer_.push(token);
  const bool is_chat = options_.mode == OutputMode::chat;
  const OutputTag tag = is_chat ? tags_->of(token) : OutputTag::none;
  const bool is_hidden = is_chat && tag == OutputTag::none && tokenizer_->is_special(token);
  bool matched = false;
  if (tag == OutputTag::none && !is_hidden) {
    matched = append({.counts = true, .text = std::move(text)});
  } else {
    // An unfinished character in front of the token has become U+FFFD and stands before the token's own text.
    const std::string_view own = tokenizer_->token_bytes(token);
    const size_t before = text.ends_with(own) ? text.size() - own.size() : 0;
    matched = before > 0 && append({.text = text.substr(0, before)});
    matched = matched || append({.tag = tag, .shown = !is_hidden, .text = text.substr(before)});
  }
  if (matched) {
    stop_here(static_cast<size_t>(options_.stop->match(stop_state_)), out);
  } else {
    release(held_bytes_ - (options_.stop == nullptr ? 0 : options_.stop->held_bytes(stop_state_)), out);
  }
}

/// Queues the item. True if a stop string has matched: then the item has been cut behind the match.
bool OutputStream::append(Item item) {
  size_t end = item.text.size();
  bool matched = false;
  for (size_t i = 0; options_.stop != nullptr && i < end; ++i) {
    stop_state_ = options_.stop->next(stop_state_, static_cast<unsigned char>(item.text[i]));
    if (options_.stop->match(stop_state_) < 0 || tokens_ <= options_.min_tokens) continue;
    matched = true;
    end = i + 1;
  }
  held_bytes_ += end;
  item.text.resize(end);
  held_.push_back(std::move(item));
  return matched;
}

/// Hands the next `bytes` held bytes to the parser, and items without text behind them.
void OutputStream::release(size_t bytes, std::vector<OutputDelta>& out) {
  held_bytes_ -= bytes;
  while (!held_.empty()) {
    Item& item = held_.front();
    const size_t left = item.text.size() - item.taken;
    if (left > bytes) {
      deliver(item, std::string_view(item.text).substr(item.taken, bytes), /*whole=*/false, out);
      item.taken += bytes;
      return;
    }
    bytes -= left;
    deliver(item, std::string_view(item.text).substr(item.taken), /*whole=*/true, out);
    held_.pop_front();
  }
}

void OutputStream::deliver(const Item& item, std::string_view text, bool whole,
                           std::vector<OutputDelta>& out) {
  if (options_.mode == OutputMode::text) {
    text_ += text;
    if (out.empty() && !text.empty()) out.emplace_back();
    if (!out.empty()) out.back().text += text;
    return;
  }
  if (whole && item.counts && parser_.in_reasoning()) ++reasoning_tokens_;
  if (item.tag != OutputTag::none) {
    if (whole) parser_.tag(item.tag, out);
  } else if (item.shown) {
    parser_.text(text, out);
  }
}

void OutputStream::stop_here(size_t match, std::vector<OutputDelta>& out) {
  stopped_ = true;
  stop_string_ = options_.stop->string(match);
  release(held_bytes_ - (options_.include_stop_str_in_output ? 0 : stop_string_.size()), out);
  // The tokens that made the stop string were generated, and while reasoning if no tag stands before them.
  for (const Item& item : held_) {
    if (options_.mode != OutputMode::chat || !parser_.in_reasoning() || item.tag != OutputTag::none) break;
    if (item.counts) ++reasoning_tokens_;
  }
  held_.clear();
  held_bytes_ = 0;
}

std::vector<OutputDelta> OutputStream::finish(const StreamEnd& end) {
  std::vector<OutputDelta> out;
  if (!stopped_ && end.stop_token && options_.include_stop_str_in_output) accept(*end.stop_token, out);
  if (!stopped_) release(held_bytes_, out);
  if (options_.mode == OutputMode::chat) {
    const bool is_complete = !stopped_ && end.reason == StreamEnd::Reason::stop;
    parser_.finish(is_complete ? OutputEnd::complete : OutputEnd::cut, out);
  }
  set_finish(end);
  finish_.cut_in_call = options_.mode == OutputMode::chat && parser_.cut_in_call();
  return out;
}

void OutputStream::set_finish(const StreamEnd& end) {
  if (stopped_ || end.reason == StreamEnd::Reason::stop) {
    const bool is_named = options_.parser.tool_choice.mode == ToolChoiceMode::named;
    const bool calls =
        options_.mode == OutputMode::chat && parser_.called() && !is_named && !parser_.cut_in_call();
    finish_.finish_reason = calls ? "tool_calls" : "stop";
    if (stopped_) {
      finish_.stop_reason = stop_string_;
    } else if (end.stop_token && end.stop_token != options_.primary_eos) {
      finish_.stop_reason = *end.stop_token;
    }
    return;
  }
  finish_.finish_reason = end.reason == StreamEnd::Reason::length  ? "length"
                          : end.reason == StreamEnd::Reason::abort ? "abort"
                                                                   : "error";
}

OutputResult OutputStream::result() const {
  if (options_.mode == OutputMode::chat) return parser_.result();
  OutputResult out;
  out.content = text_;
  return out;
}

OutputChunk merge_deltas(std::span<const OutputDelta> deltas) {
  OutputChunk chunk;
  const auto call = [&chunk](int32_t index) -> OutputChunk::Call& {
    // Indices rise, so the entry is the last one or new.
    if (chunk.calls.empty() || chunk.calls.back().index != index) chunk.calls.emplace_back().index = index;
    return chunk.calls.back();
  };
  for (const OutputDelta& delta : deltas) {
    switch (delta.kind) {
      case OutputDelta::Kind::reasoning:
        chunk.reasoning += delta.text;
        break;
      case OutputDelta::Kind::content:
        chunk.content += delta.text;
        break;
      case OutputDelta::Kind::call_arguments:
        call(delta.index).arguments += delta.text;
        break;
      case OutputDelta::Kind::call_open: {
        OutputChunk::Call& entry = call(delta.index);
        entry.opens = true;
        entry.id = delta.id;
        entry.name = delta.name;
        break;
      }
    }
  }
  return chunk;
}

}  // namespace glint
