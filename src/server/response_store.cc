#include "server/response_store.h"

#include <utility>

namespace glint {

void ResponseStore::erase(std::list<Item>::iterator item) {
  bytes_ -= item->size();
  by_id_.erase(item->id);
  items_.erase(item);
}

void ResponseStore::insert(const std::string& id, StoredResponse entry) {
  if (const auto old = by_id_.find(id); old != by_id_.end()) erase(old->second);
  items_.push_back({id, std::move(entry)});
  by_id_[id] = std::prev(items_.end());
  bytes_ += items_.back().size();
  while (!items_.empty() && (bytes_ > bytes_max_ || items_.size() > entries_max_)) erase(items_.begin());
}

bool ResponseStore::claim(const std::string& id) {
  const std::lock_guard lock(mutex_);
  return by_id_.count(id) == 0 && claimed_.insert(id).second;
}

void ResponseStore::release(const std::string& id) {
  const std::lock_guard lock(mutex_);
  claimed_.erase(id);
}

void ResponseStore::update(const std::string& id, std::string response) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end() || found->second->entry.finished) return;
  bytes_ -= found->second->size();
  found->second->entry.response = std::move(response);
  bytes_ += found->second->size();
}

void ResponseStore::put(const std::string& id, StoredResponse entry) {
  const std::lock_guard lock(mutex_);
  insert(id, std::move(entry));
}

bool ResponseStore::finish(const std::string& id, StoredResponse entry) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end() || found->second->entry.finished) return false;
  insert(id, std::move(entry));
  return true;
}

std::optional<StoredResponse> ResponseStore::find(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return std::nullopt;
  return found->second->entry;
}

bool ResponseStore::remove(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return false;
  erase(found->second);
  return true;
}

size_t ResponseStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace glint
