#include "text/stop_matcher.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace glint {

namespace {

uint64_t edge(uint32_t node, unsigned char byte) {
  return uint64_t{node} * 256 + byte;
}

}  // namespace

StopStrings::StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)), nodes_(1) {
  for (size_t i = 0; i < strings_.size(); ++i) {
    if (strings_[i].empty()) fail(ErrorKind::bad_input, "a stop string must not be empty");
    if (!is_valid_utf8(strings_[i])) fail(ErrorKind::bad_input, "a stop string is not valid UTF-8");
    insert(static_cast<int32_t>(i));
  }
  link_failures();
}

void StopStrings::insert(int32_t index) {
  uint32_t node = kStart;
  for (const char letter : strings_[static_cast<size_t>(index)]) {
    const auto byte = static_cast<unsigned char>(letter);
    const auto [entry, is_new] =
        children_.try_emplace(edge(node, byte), static_cast<uint32_t>(nodes_.size()));
    if (is_new) {
      nodes_.push_back(
          {.parent = node, .fail = kStart, .depth = nodes_[node].depth + 1, .match = -1, .byte = byte});
    }
    node = entry->second;
  }
  if (nodes_[node].match < 0) nodes_[node].match = index;
}

void StopStrings::link_failures() {
  // By depth: a failure link leads to a shorter text, which must be finished first.
  std::vector<uint32_t> order(nodes_.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [this](uint32_t a, uint32_t b) { return nodes_[a].depth < nodes_[b].depth; });
  for (const uint32_t at : order) {
    Node& node = nodes_[at];
    if (node.depth > 1) node.fail = next(nodes_[node.parent].fail, node.byte);
    const int32_t shorter = at == kStart ? -1 : nodes_[node.fail].match;
    if (shorter >= 0 && (node.match < 0 || shorter < node.match)) node.match = shorter;
  }
}

uint32_t StopStrings::next(uint32_t state, unsigned char byte) const {
  while (true) {
    const auto child = children_.find(edge(state, byte));
    if (child != children_.end()) return child->second;
    if (state == kStart) return kStart;
    state = nodes_[state].fail;
  }
}

StopMatcher::StopMatcher(std::shared_ptr<const Tokenizer> tokenizer,
                         std::shared_ptr<const StopStrings> strings, bool skip_special_tokens,
                         int64_t min_tokens)
    : strings_(std::move(strings)),
      detokenizer_(std::move(tokenizer), skip_special_tokens),
      min_tokens_(min_tokens) {}

std::optional<std::string> StopMatcher::push(TokenId token) {
  ++tokens_;
  for (const char letter : detokenizer_.push(token)) {
    state_ = strings_->next(state_, static_cast<unsigned char>(letter));
    const int32_t match = strings_->match(state_);
    if (match >= 0 && tokens_ > min_tokens_) return strings_->string(static_cast<size_t>(match));
  }
  return {};
}

}  // namespace glint
