#include "text/bpe.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "base/error.h"

namespace glint {

namespace {

constexpr uint32_t kNoMerge = UINT32_MAX;
constexpr uint32_t kNowhere = UINT32_MAX;
constexpr size_t kShortPiece = 48;  // up to here a linear search for the best pair beats the heap

uint64_t mix(uint64_t value) {
  value *= 0x9E3779B97F4A7C15U;
  return value ^ (value >> 32);
}

uint64_t hash_bytes(std::string_view bytes) {
  uint64_t hash = bytes.size();
  const char* data = bytes.data();
  size_t left = bytes.size();
  uint64_t word;
  for (; left >= sizeof word; left -= sizeof word, data += sizeof word) {
    std::memcpy(&word, data, sizeof word);
    hash = mix(hash ^ word);
  }
  word = 0;
  std::memcpy(&word, data, left);
  return mix(mix(hash ^ word));
}

uint32_t tag_of(uint64_t hash) {
  return static_cast<uint32_t>(hash >> 40);
}

size_t power_of_two_above(size_t value) {
  size_t power = 16;
  while (power < value) power *= 2;
  return power;
}

}  // namespace

size_t TokenTable::slot_of(std::string_view bytes, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  while (slots_[at].id >= 0 && (slots_[at].tag != tag_of(hash) || this->bytes(slots_[at].id) != bytes))
    at = (at + 1) & mask;
  return at;
}

void TokenTable::grow() {
  std::vector<Slot> old(std::max<size_t>(16, slots_.size() * 2));
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.id < 0) continue;
    const std::string_view text = bytes(slot.id);
    const uint64_t hash = hash_bytes(text);
    slots_[slot_of(text, hash)] = {slot.id, tag_of(hash)};
  }
}

void TokenTable::store(TokenId id, std::string_view bytes) {
  GLINT_CHECK(id >= 0 && id < kIdsMax && arena_.size() + bytes.size() < (size_t{1} << 31));
  if (static_cast<size_t>(id) >= spans_.size()) spans_.resize(static_cast<size_t>(id) + 1);
  Span& span = spans_[static_cast<size_t>(id)];
  span.offset = static_cast<uint32_t>(arena_.size());
  span.size = static_cast<uint32_t>(bytes.size()) & 0x7FFFFFFFU;
  span.used = 1;
  arena_.append(bytes);
  ++tokens_;
}

bool TokenTable::add_hidden(TokenId id, std::string_view bytes) {
  if (exists(id)) return false;
  store(id, bytes);
  return true;
}

bool TokenTable::add(TokenId id, std::string_view bytes) {
  if (exists(id)) return false;
  if (2 * (used_slots_ + 1) > slots_.size()) grow();
  const uint64_t hash = hash_bytes(bytes);
  Slot& slot = slots_[slot_of(bytes, hash)];
  if (slot.id >= 0) return false;
  store(id, bytes);
  slot = {id, tag_of(hash)};
  ++used_slots_;
  return true;
}

TokenId TokenTable::find(std::string_view bytes) const {
  if (slots_.empty()) return -1;
  return slots_[slot_of(bytes, hash_bytes(bytes))].id;
}

namespace {

uint64_t pair_key(TokenId left, TokenId right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

void MergeTable::reserve(size_t merges) {
  GLINT_CHECK(used_ == 0);
  slots_.assign(power_of_two_above(merges + merges / 2 + 1), Slot{});
}

size_t MergeTable::slot_of(uint64_t key) const {
  const size_t mask = slots_.size() - 1;
  size_t at = mix(key) & mask;
  while (slots_[at].key != key && slots_[at].key != kFree) at = (at + 1) & mask;
  return at;
}

void MergeTable::add(TokenId left, TokenId right, Merge merge) {
  const uint64_t key = pair_key(left, right);
  GLINT_CHECK(used_ + 1 < slots_.size());
  Slot& slot = slots_[slot_of(key)];
  if (slot.key == kFree) ++used_;
  slot = {key, merge};
}

Merge MergeTable::find(TokenId left, TokenId right) const {
  if (slots_.empty()) return {};
  return slots_[slot_of(pair_key(left, right))].merge;
}

BpeModel::BpeModel(TokenTable vocabulary, MergeTable merges, bool ignore_merges)
    : vocabulary_(std::move(vocabulary)), merges_(std::move(merges)), ignore_merges_(ignore_merges) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char one = static_cast<char>(static_cast<unsigned char>(byte));
    byte_ids_[byte] = vocabulary_.find(std::string_view(&one, 1));
  }
}

void BpeModel::encode(std::string_view piece, std::vector<TokenId>& out, Scratch& scratch) const {
  if (ignore_merges_) {
    if (const TokenId whole = vocabulary_.find(piece); whole >= 0) {
      out.push_back(whole);
      return;
    }
  }
  GLINT_CHECK(piece.size() < kNowhere);
  scratch.ids.clear();
  for (const char byte : piece) {
    const TokenId id = byte_ids_[static_cast<unsigned char>(byte)];
    if (id >= 0) scratch.ids.push_back(id);
  }
  if (scratch.ids.size() <= kShortPiece) {
    merge_short(out, scratch);
  } else {
    merge_long(out, scratch);
  }
}

/// Finds the best pair by looking at all, and closes the gap by moving the rest down.
void BpeModel::merge_short(std::vector<TokenId>& out, Scratch& scratch) const {
  Merge merges[kShortPiece];  // of symbol i with symbol i + 1
  TokenId* ids = scratch.ids.data();
  size_t count = scratch.ids.size();
  for (size_t i = 0; i + 1 < count; ++i) merges[i] = merges_.find(ids[i], ids[i + 1]);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].rank == kNoMerge) break;
    ids[best] = merges[best].id;
    --count;
    for (size_t i = best + 1; i < count; ++i) {
      ids[i] = ids[i + 1];
      merges[i - 1] = merges[i];
    }
    if (best + 1 < count) merges[best] = merges_.find(ids[best], ids[best + 1]);
    if (best > 0) merges[best - 1] = merges_.find(ids[best - 1], ids[best]);
  }
  out.insert(out.end(), ids, ids + count);
}

/// A linked list of symbols and a heap of (rank, position). An entry is stale unless the pair at its position
/// still has its rank; ranks are unique per pair, and a symbol at a position only ever grows, so no stale
/// entry looks fresh.
void BpeModel::merge_long(std::vector<TokenId>& out, Scratch& scratch) const {
  std::vector<TokenId>& ids = scratch.ids;
  std::vector<uint64_t>& heap = scratch.heap;
  const auto count = static_cast<uint32_t>(ids.size());
  scratch.ranks.assign(count, kNoMerge);
  scratch.previous.resize(count);
  scratch.next.resize(count);
  heap.clear();

  const auto rate = [&](uint32_t at) {
    const uint32_t right = scratch.next[at];
    const uint32_t rank = right == kNowhere ? kNoMerge : merges_.find(ids[at], ids[right]).rank;
    scratch.ranks[at] = rank;
    if (rank == kNoMerge) return;
    heap.push_back(static_cast<uint64_t>(rank) << 32 | at);
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  for (uint32_t i = 0; i < count; ++i) {
    scratch.previous[i] = i == 0 ? kNowhere : i - 1;
    scratch.next[i] = i + 1 == count ? kNowhere : i + 1;
  }
  for (uint32_t i = 0; i < count; ++i) rate(i);

  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const auto at = static_cast<uint32_t>(heap.back());
    const auto rank = static_cast<uint32_t>(heap.back() >> 32);
    heap.pop_back();
    if (scratch.ranks[at] != rank) continue;
    const uint32_t gone = scratch.next[at];
    ids[at] = merges_.find(ids[at], ids[gone]).id;
    ids[gone] = -1;
    scratch.ranks[gone] = kNoMerge;
    scratch.next[at] = scratch.next[gone];
    if (scratch.next[at] != kNowhere) scratch.previous[scratch.next[at]] = at;
    rate(at);
    if (scratch.previous[at] != kNowhere) rate(scratch.previous[at]);
  }
  for (uint32_t at = 0; at != kNowhere; at = scratch.next[at]) out.push_back(ids[at]);
}

}  // namespace glint
