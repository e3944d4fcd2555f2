#include "text/grammar/grammar_cache.h"

#include "base/error.h"

namespace glint {

std::string GrammarSource::key() const {
  std::string key(1, static_cast<char>('0' + static_cast<int>(kind)));
  key += lenient ? 'l' : 's';
  return key + text;
}

GrammarCache::GrammarCache(std::shared_ptr<const TokenTable> table, GrammarCacheOptions options)
    : table_(std::move(table)),
      options_(options),
      compiler_(make_grammar_compiler(table_, options.compile_time)),
      turns_(options.compile_at_once) {}

std::shared_ptr<const CompiledGrammar> GrammarCache::get(const GrammarSource& source) {
  std::promise<std::shared_ptr<const CompiledGrammar>> promise;
  const std::string key = source.key();
  Result result;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = by_key_.find(key); found != by_key_.end()) {
      ++counts_.hits;
      entries_.splice(entries_.begin(), entries_, found->second);
      result = found->second->result;
    } else {
      ++counts_.misses;
      entries_.push_front({key, promise.get_future().share(), key.size(), false});
      by_key_.emplace(entries_.front().key, entries_.begin());
    }
  }
  if (result.valid()) {
    std::shared_ptr<void> aside;
    if (result.wait_for(std::chrono::seconds(0)) != std::future_status::ready) aside = step_aside();
    return result.get();
  }
  try {
    const std::shared_ptr<void> aside = step_aside();
    auto compiled = compile(source);
    promise.set_value(compiled);
    finished(key, compiled->memory_bytes());
    return compiled;
  } catch (const std::exception& failure) {
    promise.set_exception(std::current_exception());
    const auto* error = dynamic_cast<const Error*>(&failure);
    failed(key, error != nullptr && error->kind() == ErrorKind::bad_input);
    throw;
  }
}

void GrammarCache::step_aside_by(std::function<std::shared_ptr<void>()> aside) {
  const std::lock_guard lock(mutex_);
  aside_ = std::move(aside);
}

std::shared_ptr<void> GrammarCache::step_aside() const {
  std::function<std::shared_ptr<void>()> aside;
  {
    const std::lock_guard lock(mutex_);
    aside = aside_;
  }
  return aside ? aside() : nullptr;
}

std::shared_ptr<const CompiledGrammar> GrammarCache::compile(const GrammarSource& source) {
  if (!turns_.try_acquire_for(options_.patience)) {
    fail(ErrorKind::busy, "too many grammars are being compiled; try again");
  }
  struct Turn {
    std::counting_semaphore<>& turns;
    ~Turn() { turns.release(); }
  } turn{turns_};
  return compiler_->compile(source);
}

void GrammarCache::finished(const std::string& key, size_t bytes) {
  const std::lock_guard lock(mutex_);
  Entry& entry = *by_key_.at(key);
  entry.ready = true;
  entry.bytes += bytes;
  counts_.bytes += entry.bytes;
  trim();
}

/// What is wrong with the source stays wrong; other failures may pass.
void GrammarCache::failed(const std::string& key, bool keep) {
  const std::lock_guard lock(mutex_);
  ++counts_.failures;
  const auto found = by_key_.find(key);
  const Entries::iterator entry = found->second;
  if (keep) {
    entry->ready = true;
    counts_.bytes += entry->bytes;
    return trim();
  }
  by_key_.erase(found);
  entries_.erase(entry);
}

/// The last used of those that are ready go; what a request holds stays alive with it.
void GrammarCache::trim() {
  for (auto at = entries_.end(); at != entries_.begin();) {
    if (counts_.bytes <= options_.bytes_max && entries_.size() <= options_.entries_max) return;
    --at;
    if (!at->ready) continue;
    counts_.bytes -= at->bytes;
    ++counts_.evictions;
    by_key_.erase(at->key);
    at = entries_.erase(at);
  }
}

GrammarCacheCounts GrammarCache::counts() const {
  const std::lock_guard lock(mutex_);
  GrammarCacheCounts counts = counts_;
  counts.entries = entries_.size();
  return counts;
}

}  // namespace glint
