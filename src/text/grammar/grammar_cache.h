// Compiled grammars by what they were compiled from: the same schema costs once. Failures are kept too.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <semaphore>
#include <string>
#include <unordered_map>

#include "text/grammar/grammar.h"

namespace glint {

struct GrammarCacheOptions {
  size_t bytes_max = size_t{512} << 20;
  size_t entries_max = 2048;
  int compile_at_once = 2;                        // the others wait
  std::chrono::milliseconds patience{10'000};     // this long
  std::chrono::milliseconds compile_time{10'000};  // processor time of one; what takes longer is refused
};

struct GrammarCacheCounts {
  uint64_t hits = 0, misses = 0, failures = 0, evictions = 0;
  size_t entries = 0, bytes = 0;
};

/// Thread-safe.
class GrammarCache {
 public:
  GrammarCache(std::shared_ptr<const TokenTable> table, GrammarCacheOptions options = {});

  /// Compiles, or waits for another thread that compiles the same, or finds. Throws as GrammarCompiler does,
  /// and busy if it did not get its turn.
  std::shared_ptr<const CompiledGrammar> get(const GrammarSource& source);
  /// `aside`: called by get() before it compiles or waits; what it returns lives until that is over. It may
  /// throw, then get() does. So a server lets other work go on meanwhile.
  void step_aside_by(std::function<std::shared_ptr<void>()> aside);
  [[nodiscard]] const std::shared_ptr<const TokenTable>& table() const { return table_; }
  [[nodiscard]] GrammarCacheCounts counts() const;

 private:
  using Result = std::shared_future<std::shared_ptr<const CompiledGrammar>>;
  struct Entry {
    std::string key;
    Result result;
    size_t bytes = 0;
    bool ready = false;
  };
  using Entries = std::list<Entry>;  // the last used first
  [[nodiscard]] std::shared_ptr<void> step_aside() const;
  std::shared_ptr<const CompiledGrammar> compile(const GrammarSource& source);
  void finished(const std::string& key, size_t bytes);
  void failed(const std::string& key, bool keep);
  void trim();

  std::shared_ptr<const TokenTable> table_;
  GrammarCacheOptions options_;
  std::unique_ptr<const GrammarCompiler> compiler_;
  std::counting_semaphore<> turns_;
  mutable std::mutex mutex_;  // guards the rest
  std::function<std::shared_ptr<void>()> aside_;
  Entries entries_;
  std::unordered_map<std::string_view, Entries::iterator> by_key_;
  GrammarCacheCounts counts_;
};

}  // namespace glint
