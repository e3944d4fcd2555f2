// Random requests and engine configurations for tests that compare an answer with the one that a request gets
// alone.
#pragma once

#include <random>
#include <string>

#include "engine_support.h"

namespace glint::testing {

/// A few prompts that share beginnings of various lengths, around page boundaries too.
inline EngineRequest random_request(std::mt19937& random) {
  EngineRequest request;
  const auto family = static_cast<int>(random() % 3);
  const int lengths[] = {1, 7, 63, 64, 65, 128, 130, 191};
  const int length = lengths[random() % 8];
  for (int i = 0; i < length; ++i) request.prompt.push_back((i * 37 + family * 11) % 250);
  if (random() % 2 == 0) request.prompt.push_back(static_cast<TokenId>(random() % 4));
  request.sampling.max_tokens = 1 + static_cast<int64_t>(random() % 20);
  request.sampling.temperature = random() % 2 == 0 ? 0.0F : 0.9F;
  request.sampling.top_k = random() % 3 == 0 ? 20 : 0;
  request.sampling.top_p = random() % 3 == 0 ? 0.8F : 1.0F;
  request.sampling.min_p = random() % 4 == 0 ? 0.02F : 0.0F;
  request.sampling.seed = random() % 4;
  request.sampling.min_tokens = random() % 4 == 0 ? 2 : 0;
  request.sampling.ignore_eos = random() % 2 == 0;
  if (random() % 4 == 0) request.sampling.stop_token_ids = {static_cast<TokenId>(random() % 250)};
  if (random() % 4 == 0) request.sampling.stop = {std::string(1, static_cast<char>('a' + random() % 26))};
  if (random() % 5 == 0) request.cache_salt = "tenant";
  return request;
}

/// Tells requests with different answers apart (cache_salt changes none).
inline std::string signature(const EngineRequest& request) {
  std::string text =
      cat(request.sampling.max_tokens, "/", request.sampling.temperature, "/", request.sampling.top_k, "/",
          request.sampling.top_p, "/", request.sampling.min_p, "/", *request.sampling.seed, "/",
          request.sampling.min_tokens, "/", request.sampling.ignore_eos);
  for (const TokenId id : request.sampling.stop_token_ids) text += cat(" t", id);
  for (const std::string& stop : request.sampling.stop) text += " s" + stop;
  for (const TokenId id : request.prompt) text += cat(" ", id);
  return text;
}

/// For the checkpoint in `folder`; `disk` is where a disk tier may be.
inline EngineOptions random_options(std::mt19937& random, const std::filesystem::path& folder,
                                    const std::filesystem::path& disk) {
  EngineOptions options = small_options();
  options.threads = 1 + static_cast<int>(random() % 3);
  options.max_num_seqs = 1 + static_cast<int64_t>(random() % 8);
  options.num_speculative_tokens = static_cast<int64_t>(random() % 5);
  options.prefix_caching = random() % 4 != 0;
  const int64_t least = options.max_num_seqs * (1 + options.num_speculative_tokens);
  if (random() % 5 == 0) options.num_speculative_tokens = kSpeculativeTokensAuto;
  options.max_num_batched_tokens = least + static_cast<int64_t>(random() % 60);
  options.max_model_len = 256;
  const EnginePlan plan = plan_engine(*Checkpoint::open(folder), options);
  const int64_t page = plan.cache_bytes / plan.cache_pages;
  if (random() % 2 == 0) {  // hardly more than one request fits: preemption
    options.kv_cache_memory_bytes = page * static_cast<int64_t>(4 + random() % 3);
  }
  if (options.prefix_caching && random() % 2 == 0) {  // what the workloads before left, seldom all of it
    options.kv_disk_dir = disk;
    options.kv_disk_bytes = page * (random() % 2 == 0 ? 6 : 200);
  }
  return options;
}

}  // namespace glint::testing
