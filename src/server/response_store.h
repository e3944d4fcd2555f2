// The answers of POST /v1/responses that can be asked for again: kept in memory, the oldest go first.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace glint {

struct StoredResponse {
  std::string response;  // the JSON text of the response object
  std::string
      turns;  // chat messages up to and including the answer, as JSON text; empty while it is not finished
  bool background = false;
  bool finished = false;
  std::function<void()> cancel;  // set while a background answer runs; any thread
};

/// Any thread may call everything at any time.
class ResponseStore {
 public:
  /// At most so many bytes of JSON text, in at most so many entries. 0 bytes: nothing is kept.
  explicit ResponseStore(size_t bytes_max, size_t entries_max = 10'000)
      : bytes_max_(bytes_max), entries_max_(entries_max) {}

  [[nodiscard]] bool keeps() const { return bytes_max_ > 0; }
  /// Takes the id for an answer that begins, so that no two answers have one id. False if an entry or an
  /// answer under way has it. Until release().
  [[nodiscard]] bool claim(const std::string& id);
  void release(const std::string& id);
  /// Replaces an entry of that id. The oldest entries make room; one that is larger than all the room is not
  /// kept.
  void put(const std::string& id, StoredResponse entry);
  /// As put, unless the entry has been finished or removed meanwhile (a background answer that was
  /// cancelled). Says whether it was taken.
  bool finish(const std::string& id, StoredResponse entry);
  /// Another text for an entry that is not finished; nothing if there is none.
  void update(const std::string& id, std::string response);
  [[nodiscard]] std::optional<StoredResponse> find(const std::string& id) const;
  /// False if there was none.
  bool remove(const std::string& id);
  [[nodiscard]] size_t bytes() const;

 private:
  struct Item {
    std::string id;
    StoredResponse entry;
    [[nodiscard]] size_t size() const { return entry.response.size() + entry.turns.size() + id.size(); }
  };
  void erase(std::list<Item>::iterator item);
  void insert(const std::string& id, StoredResponse entry);

  const size_t bytes_max_, entries_max_;
  mutable std::mutex mutex_;  // guards the rest
  std::list<Item> items_;     // oldest first
  std::unordered_map<std::string, std::list<Item>::iterator> by_id_;
  std::unordered_set<std::string> claimed_;
  size_t bytes_ = 0;
};

}  // namespace glint
