#include <cmath>

#include "base/error.h"
#include "bench/serve/datasets.h"

namespace glint::bench {

namespace {

constexpr int kRounds = 10;

struct Interval {
  int64_t low, high;  // both included
};

Interval interval_of(int64_t length, double ratio) {
  const auto wide = static_cast<double>(length);
  return {static_cast<int64_t>(std::floor(wide * (1 - ratio))),
          static_cast<int64_t>(std::ceil(wide * (1 + ratio)))};
}

void warn_of_mismatch(int64_t tokens, const DatasetWarning& warn) {
  if (tokens == 0) return;
  warn(cat("Across all generated prompts, there were ", std::abs(tokens), tokens > 0 ? " more" : " fewer",
           " tokens than expected after decoding and re-encoding. This is expected due to the imperfect "
           "nature of the sampling procedure."));
}

Interval checked_input(const RandomDataset& dataset, int64_t special) {
  for (const double ratio : {dataset.input_range_ratio, dataset.output_range_ratio}) {
    if (!(ratio >= 0 && ratio < 1)) {
      fail(ErrorKind::bad_input, "--random-range-ratio must be in [0, 1), got ", ratio,
           " (0 is a fixed length here; SGLang's bench counts the other way round)");
    }
  }
  const int64_t room = std::max<int64_t>(0, dataset.input_len - special);
  const Interval input = interval_of(room, dataset.input_range_ratio);
  if (dataset.prefix_len + input.low < 1) {
    fail(ErrorKind::bad_input, "--random-input-len is too small: with tokenizer special tokens ", special,
         " and input range ratio ", dataset.input_range_ratio,
         ", the minimum possible total input tokens (prefix + sampled) is ", dataset.prefix_len + input.low,
         ". Increase --random-input-len and/or --random-prefix-len, or decrease the input range ratio.");
  }
  return input;
}

std::vector<TokenId> draw_prefix(const RandomDataset& dataset, const PromptTokenizer& tokenizer,
                                 NumpyGenerator& random, const DatasetWarning& warn) {
  if (dataset.prefix_len <= 0) return {};
  const auto& allowed = tokenizer.allowed_ids();
  std::vector<TokenId> ids;
  for (const int64_t at :
       random.integers(0, static_cast<int64_t>(allowed.size()), static_cast<size_t>(dataset.prefix_len))) {
    ids.push_back(allowed[static_cast<size_t>(at)]);
  }
  FittedPrompt fitted = fit_prompt(tokenizer, std::move(ids), dataset.prefix_len, [&](size_t count) {
    return random.integers(0, tokenizer.vocab_size(), count);
  });
  if (fitted.mismatch != 0) {
    warn(cat("Prefix tokenization produced ", std::abs(fitted.mismatch),
             fitted.mismatch > 0 ? " more" : " fewer",
             " tokens than expected after decoding and re-encoding."));
  }
  return fitted.ids;
}

}  // namespace

FittedPrompt fit_prompt(const PromptTokenizer& tokenizer, std::vector<TokenId> ids, int64_t target,
                        const std::function<std::vector<int64_t>(size_t)>& draw) {
  FittedPrompt result;
  const auto wanted = static_cast<size_t>(target);
  for (int round = kRounds;; --round) {
    result.text = tokenizer.decode(ids);
    ids = tokenizer.encode(result.text);
    if (round <= 0 || ids.size() == wanted) break;
    if (ids.size() > wanted) {
      ids.resize(wanted);
    } else {
      for (const int64_t id : draw(wanted - ids.size())) ids.push_back(static_cast<TokenId>(id));
    }
  }
  result.mismatch = static_cast<int64_t>(ids.size()) - target;
  result.ids = std::move(ids);
  return result;
}

std::vector<SampleRequest> sample_random(const RandomDataset& dataset, const PromptTokenizer& tokenizer,
                                         const DatasetWarning& warn) {
  const Interval input = checked_input(dataset, tokenizer.special_tokens_to_add());
  Interval output = interval_of(dataset.output_len, dataset.output_range_ratio);
  output.low = std::max<int64_t>(output.low, 1);
  output.high = std::max<int64_t>(output.high, 1);
  const auto& allowed = tokenizer.allowed_ids();
  if (allowed.empty()) fail(ErrorKind::bad_input, "the tokenizer has no token that is not special");

  NumpyGenerator random(dataset.seed);
  const auto count = static_cast<size_t>(dataset.num_prompts);
  const auto input_lens = random.integers(input.low, input.high + 1, count);
  const auto output_lens = random.integers(output.low, output.high + 1, count);
  const auto offsets = random.integers(0, tokenizer.vocab_size(), count);
  const std::vector<TokenId> prefix = draw_prefix(dataset, tokenizer, random, warn);

  std::vector<SampleRequest> requests(count);
  int64_t mismatch = 0;
  for (size_t i = 0; i < count; ++i) {
    std::vector<TokenId> ids = prefix;
    const auto begin = static_cast<size_t>(offsets[i]) + i;
    for (size_t j = 0; j < static_cast<size_t>(input_lens[i]); ++j) {
      ids.push_back(allowed[(begin + j) % allowed.size()]);
    }
    FittedPrompt fitted =
        fit_prompt(tokenizer, std::move(ids), dataset.prefix_len + input_lens[i],
                   [&](size_t missing) { return random.integers(0, tokenizer.vocab_size(), missing); });
    mismatch += fitted.mismatch;
    requests[i].prompt = std::move(fitted.text);
    requests[i].prompt_len = static_cast<int64_t>(fitted.ids.size());
    requests[i].output_len = output_lens[i];
    requests[i].request_id = cat(dataset.request_id_prefix, i);
  }
  warn_of_mismatch(mismatch, warn);
  return requests;
}

std::vector<SampleRequest> sample_prefix_repetition(const PrefixRepetitionDataset& dataset,
                                                    const PromptTokenizer& tokenizer,
                                                    NumpyLegacyRandom& numpy, const DatasetWarning& warn) {
  const int64_t of_each = dataset.num_prompts / dataset.num_prefixes;
  if (of_each == 0) {
    fail(ErrorKind::bad_input, "num_requests (", dataset.num_prompts,
         ") must be greater than or equal to num_prefixes (", dataset.num_prefixes,
         "): change --num-prompts or --prefix-repetition-num-prefixes");
  }
  PythonRandom python(dataset.seed);
  numpy.seed(dataset.seed);
  int64_t mismatch = 0;
  const auto draw = [&](size_t count) { return numpy.randint(0, tokenizer.vocab_size(), count); };
  const auto exactly = [&](int64_t length) {
    const auto drawn = draw(static_cast<size_t>(length));
    FittedPrompt fitted = fit_prompt(tokenizer, {drawn.begin(), drawn.end()}, length, draw);
    mismatch += fitted.mismatch;
    return fitted.ids;
  };

  std::vector<SampleRequest> requests;
  for (int64_t i = 0; i < dataset.num_prefixes; ++i) {
    const std::vector<TokenId> prefix = exactly(dataset.prefix_len);
    for (int64_t j = 0; j < of_each; ++j) {
      std::vector<TokenId> ids = prefix;
      const std::vector<TokenId> suffix = exactly(dataset.suffix_len);
      ids.insert(ids.end(), suffix.begin(), suffix.end());
      SampleRequest request;
      request.prompt = tokenizer.decode(ids);
      request.prompt_len = static_cast<int64_t>(ids.size());
      request.output_len = dataset.output_len;
      requests.push_back(std::move(request));
    }
  }
  warn_of_mismatch(mismatch, warn);
  if (dataset.shuffle) python.shuffle(requests);
  for (size_t i = 0; i < requests.size(); ++i) requests[i].request_id = cat(dataset.request_id_prefix, i);
  return requests;
}

}  // namespace glint::bench
