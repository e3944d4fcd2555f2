#include "server/open_answers.h"

#include <array>
#include <utility>

namespace glint {

std::shared_ptr<void> OpenAnswers::enter(std::string id, std::weak_ptr<Answer> answer,
                                         std::weak_ptr<HttpExchange> exchange) {
  const std::lock_guard lock(mutex_);
  // Its place stays while others come and go.
  const auto place = table_.emplace(std::move(id), Entry{std::move(answer), std::move(exchange)});
  return {nullptr, [this, place](std::nullptr_t) {
            const std::lock_guard guard(mutex_);
            table_.erase(place);
          }};
}

size_t OpenAnswers::end(const std::vector<Entry>& entries) {
  size_t count = 0;
  for (const Entry& entry : entries) {
    const auto exchange = entry.exchange.lock();
    if (!exchange) continue;
    ++count;
    exchange->post([weak = entry.answer] {
      if (const auto answer = weak.lock()) answer->abort();
    });
  }
  return count;
}

size_t OpenAnswers::abort(std::string_view id) {
  static constexpr std::array<std::string_view, 5> kPrefixes = {"", "chatcmpl-", "cmpl-", "msg_", "resp_"};
  std::vector<Entry> found;
  {
    const std::lock_guard lock(mutex_);
    for (const std::string_view prefix : kPrefixes) {
      if (!id.starts_with(prefix)) continue;
      const auto [begin, end] = table_.equal_range(std::string(id.substr(prefix.size())));
      for (auto entry = begin; entry != end; ++entry) found.push_back(entry->second);
    }
  }
  return end(found);
}

size_t OpenAnswers::abort_all() {
  std::vector<Entry> found;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, entry] : table_) found.push_back(entry);
  }
  return end(found);
}

}  // namespace glint
