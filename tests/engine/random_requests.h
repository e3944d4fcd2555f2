// Random requests and engine configurations for tests that compare an answer with the one that a request gets
// alone.
#pragma once

#include <random>
#include <string>

#include "engine_support.h"

namespace glint::testing {

/// Allows ids whose difference to the token before (or to 0) is small modulo 256: a rule that needs the whole
/// way of a token, drafts included.
class NeighbourConstraint : public TokenConstraint {
 public:
  explicit NeighbourConstraint(int64_t vocab_size) : bits_(static_cast<size_t>((vocab_size + 31) / 32)) {}
  std::span<const uint32_t> allowed() override {
    const auto last = static_cast<uint32_t>(heard_.empty() ? 0 : heard_.back());
    for (size_t word = 0; word < bits_.size(); ++word) {
      bits_[word] = (word + last / 32) % 3 == 0 ? 0xFFFFFFFFU : 0x0F0F0F0FU << last % 4;
    }
    return bits_;
  }
  void push(TokenId token) override { heard_.push_back(token); }
  void pop(int64_t count) override { heard_.resize(heard_.size() - static_cast<size_t>(count)); }

 private:
  std::vector<uint32_t> bits_;
  std::vector<TokenId> heard_;
};

/// Random combinations of everything that stands between logits and token.
inline void add_random_rules(std::mt19937& random, SamplingParams& sampling) {
  const auto id = [&] { return static_cast<TokenId>(random() % 250); };
  if (random() % 4 == 0) sampling.presence_penalty = 0.5F;
  if (random() % 4 == 0) sampling.frequency_penalty = 0.3F;
  if (random() % 4 == 0) sampling.repetition_penalty = random() % 2 == 0 ? 1.2F : 0.7F;
  if (random() % 4 == 0) sampling.logit_bias = {{id(), 5.0F}, {id(), -3.0F}, {id(), 2.0F}};
  if (random() % 3 == 0) {  // of few ids many drafts are confirmed
    sampling.allowed_token_ids.emplace();
    const int ids = 2 << random() % 5;
    for (int i = 0; i < ids; ++i)
      sampling.allowed_token_ids->push_back(i * 6 + static_cast<TokenId>(random() % 3));
  }
  if (random() % 4 == 0) sampling.bad_words = {{id()}, {id(), id()}, {id(), id(), id()}};
  if (random() % 5 == 0) sampling.reasoning = {{7, 9}, static_cast<int64_t>(random() % 8), 9, {}};
  if (random() % 3 == 0) sampling.logprobs = static_cast<int32_t>(random() % 4);
  if (random() % 6 == 0) sampling.prompt_logprobs = static_cast<int32_t>(random() % 3);
}

/// Constraints have state: one for each time that a request is sent.
inline EngineRequest sendable(EngineRequest request, int64_t vocab_size) {
  if (request.sampling.seed == 3U) {
    request.sampling.constraint = std::make_shared<NeighbourConstraint>(vocab_size);
  }
  return request;
}

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
  add_random_rules(random, request.sampling);
  return request;
}

/// Without rules: what a round takes (engine/run_ahead.h).
inline void drop_rules(SamplingParams& sampling) {
  SamplingParams plain;
  plain.temperature = sampling.temperature;
  plain.top_k = sampling.top_k;
  plain.top_p = sampling.top_p;
  plain.min_p = sampling.min_p;
  plain.seed = *sampling.seed % 3;  // sendable() constrains seed 3
  plain.max_tokens = 2 * sampling.max_tokens;
  plain.ignore_eos = sampling.ignore_eos;
  plain.stop_token_ids = sampling.stop_token_ids;
  plain.stop = sampling.stop;
  sampling = plain;
}

/// Tells requests with different answers apart (cache_salt changes none).
inline std::string signature(const EngineRequest& request) {
  const SamplingParams& sampling = request.sampling;
  std::string text =
      cat(sampling.max_tokens, "/", sampling.temperature, "/", sampling.top_k, "/", sampling.top_p, "/",
          sampling.min_p, "/", *sampling.seed, "/", sampling.min_tokens, "/", sampling.ignore_eos, "/",
          sampling.presence_penalty, "/", sampling.frequency_penalty, "/", sampling.repetition_penalty, "/",
          sampling.reasoning.budget, "/", sampling.logprobs.value_or(-9), "/",
          sampling.prompt_logprobs.value_or(-9));
  for (const TokenId id : sampling.stop_token_ids) text += cat(" t", id);
  for (const std::string& stop : sampling.stop) text += " s" + stop;
  for (const LogitBias& entry : sampling.logit_bias) text += cat(" b", entry.id, ":", entry.bias);
  for (const auto& word : sampling.bad_words) {
    text += " w";
    for (const TokenId id : word) text += cat(" ", id);
  }
  if (sampling.allowed_token_ids) {
    text += " a";
    for (const TokenId id : *sampling.allowed_token_ids) text += cat(" ", id);
  }
  text += " p";
  for (const TokenId id : request.prompt) text += cat(" ", id);
  return text;
}

/// For the checkpoint in `folder`; `disk` is where a disk tier may be.
inline EngineOptions random_options(std::mt19937& random, const std::filesystem::path& folder,
                                    const std::filesystem::path& disk) {
  EngineOptions options = small_options();
  options.threads = 1 + static_cast<int>(random() % 3);
  options.max_num_seqs = 1 + static_cast<int64_t>(random() % 8);
  options.num_speculative_tokens = random() % 3 == 0 ? 0 : 1 + static_cast<int64_t>(random() % 8);
  options.prefix_caching = random() % 4 != 0;
  const bool automatic = random() % 5 == 0;
  const int64_t least =
      options.max_num_seqs * (1 + std::max<int64_t>(automatic, options.num_speculative_tokens));
  if (automatic) options.num_speculative_tokens = kSpeculativeTokensAuto;
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
