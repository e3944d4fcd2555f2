#include "engine/token_taker.h"

#include <algorithm>

#include "base/error.h"

namespace glint {

namespace {

void end_with_error(StepOutput& output, std::string error) {
  output.finish = FinishReason::error;
  output.error = std::move(error);
}

std::string unusable(int64_t position) {
  return cat("the model gave no usable logits at position ", position,
             " (a NaN, an infinity, or nothing that may be sampled)");
}

}  // namespace

void TokenTaker::reserve(size_t parts, size_t tokens) {
  taken_.resize(std::max(taken_.size(), parts));
  for (TakenPart& taken : taken_) taken.output.tokens.reserve(tokens);
  logits_.reserve(parts);
}

std::span<TakenPart> TokenTaker::take(const std::vector<ScheduledRows>& rows, float* logits) {
  if (taken_.size() < rows.size()) taken_.resize(rows.size());
  logits_.clear();
  for (const ScheduledRows& part : rows) {
    logits_.push_back(logits);
    logits += part.logits_rows() * vocab_size_;
  }
  sampler_.run(static_cast<int64_t>(rows.size()), [&](int64_t item, int lane) {
    const auto index = static_cast<size_t>(item);
    take_part(rows[index], logits_[index], taken_[index], lane);
  });
  return std::span(taken_).first(rows.size());
}

std::span<TakenPart> TokenTaker::take(const std::vector<ScheduledRows>& rows, const RunAhead& round) {
  if (taken_.size() < rows.size()) taken_.resize(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    begin_part(rows[i], taken_[i]);
    const std::span<const int32_t> tokens = round.tokens(i);
    take_tokens(rows[i], taken_[i], [tokens](int64_t row) {
      GLINT_CHECK(row < static_cast<int64_t>(tokens.size()));
      return tokens[static_cast<size_t>(row)];
    });
  }
  return std::span(taken_).first(rows.size());
}

void TokenTaker::begin_part(const ScheduledRows& part, TakenPart& taken) const {
  const Sequence& sequence = *part.sequence;
  StepOutput& output = taken.output;
  output.clear();
  output.request = sequence.id;
  output.user = sequence.user;
  output.times = sequence.times;
  taken.has_output = part.logits_rows() > 0;
  taken.valid = part.rows;
  taken.sampled = part.samples;
  taken.unusable = false;
  taken.drafted = 0;
  taken.accepted = 0;
}

void TokenTaker::take_part(const ScheduledRows& part, float* logits, TakenPart& taken, int lane) const {
  begin_part(part, taken);
  Sequence& sequence = *part.sequence;
  StepOutput& output = taken.output;
  if (!score(part, logits, output, lane)) {
    taken.valid = 0;
    taken.unusable = true;
    sequence.ended = true;
  } else if (part.samples) {
    take_tokens(part, taken, [&](int64_t row) {
      const std::span<float> values{logits + row * vocab_size_, static_cast<size_t>(vocab_size_)};
      return sampler_.sample(sequence, sequence.generated(), values, &output.logprobs, lane);
    });
  }
}

bool TokenTaker::score(const ScheduledRows& part, float*& logits, StepOutput& output, int lane) const {
  Sequence& sequence = *part.sequence;
  const int64_t end = sequence.computed + part.rows;
  for (int64_t position = sequence.computed; position < end; ++position) {
    if (!sequence.scores(position)) continue;
    const TokenId next = sequence.tokens[static_cast<size_t>(position + 1)];
    const std::span<float> row{logits, static_cast<size_t>(vocab_size_)};
    if (!sampler_.score(sequence, next, row, output.prompt_logprobs, lane)) {
      end_with_error(output, unusable(position));
      return false;
    }
    logits += vocab_size_;
    sequence.prompt_scored = position + 1;
  }
  return true;
}

template <class Next>
void TokenTaker::take_tokens(const ScheduledRows& part, TakenPart& taken, const Next& next) const {
  StepOutput& output = taken.output;
  Sequence& sequence = *part.sequence;
  taken.drafted = static_cast<int64_t>(sequence.drafts.size());
  output.drafted = static_cast<int32_t>(taken.drafted);
  int64_t count = 0;
  while (count <= taken.drafted) {
    const TokenId token = next(count);
    if (token == SequenceSampler::kNothingLeft) {
      end_with_error(output, cat("the request's own rules leave no token at output position ",
                                 sequence.generated(), ": loosen ", sequence.rules.excluding()));
      output.contradiction = true;
      break;
    }
    if (token < 0) {
      taken.unusable = true;
      end_with_error(output, unusable(sequence.length() - 1));
      break;
    }
    ++count;
    if (!append(sequence, token, output)) break;
    // The next row was computed for the draft: it serves only if the draft is what was taken.
    if (count <= taken.drafted && sequence.drafts[static_cast<size_t>(count - 1)] != token) break;
  }
  taken.accepted = std::max<int64_t>(0, count - 1);
  taken.valid = count == 0 ? 0 : part.rows - taken.drafted + count - 1;
  sequence.ended = output.finish != FinishReason::none;
}

/// False if the token ended the sequence.
bool TokenTaker::append(Sequence& sequence, TokenId token, StepOutput& output) const {
  sequence.tokens.push_back(token);
  sequence.rules.push(token);
  output.tokens.push_back(token);
  if (sampler_.ends(sequence, token)) {
    output.finish = FinishReason::stop;
    output.stop_token = token;
    return false;
  }
  if (sequence.stop) {
    if (const auto matched = sequence.stop->push(token)) {
      output.finish = FinishReason::stop;
      output.stop_string = *matched;
      return false;
    }
  }
  if (sequence.length() < sequence.tokens_max) return true;
  output.finish = FinishReason::length;
  return false;
}

}  // namespace glint
