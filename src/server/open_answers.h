// Which answers are under way, by the id of their request, so that they can be ended from outside.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "server/answer.h"

namespace glint {

/// Any thread may call everything. Outlives what enter() returns.
class OpenAnswers {
 public:
  /// Known until the returned ticket is gone.
  [[nodiscard]] std::shared_ptr<void> enter(std::string id, std::weak_ptr<Answer> answer,
                                            std::weak_ptr<HttpExchange> exchange);
  /// Ends those of that id, soon: an id as the request gave it, or as the answer shows it ("chatcmpl-ID").
  /// Says how many.
  size_t abort(std::string_view id);
  size_t abort_all();

 private:
  struct Entry {
    std::weak_ptr<Answer> answer;
    std::weak_ptr<HttpExchange> exchange;
  };
  using Table = std::multimap<std::string, Entry>;
  static size_t end(const std::vector<Entry>& entries);

  std::mutex mutex_;
  Table table_;
};

}  // namespace glint
