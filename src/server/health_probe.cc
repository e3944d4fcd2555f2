#include "server/health_probe.h"

namespace glint {

void HealthProbe::submit(TokenId token) {
  user_ = router_.add(thread_, shared_from_this(), 0);
  EngineRequest request;
  request.prompt = {token};
  request.sampling.temperature = 0;
  request.sampling.max_tokens = 1;
  request.user = user_;
  request.internal = true;
  try {
    engine_id_ = engine_->submit(std::move(request));
  } catch (const std::exception& failure) {
    finish(failure.what());
  }
}

void HealthProbe::cancel() {
  if (!open_) return;
  done_ = nullptr;
  engine_->abort(engine_id_);
  finish("");
}

void HealthProbe::step(size_t /*choice*/, const StepOutput& output) {
  if (output.finish == FinishReason::none) return;
  const bool failed = output.finish == FinishReason::error || output.finish == FinishReason::abort;
  finish(failed ? output.error : "");
}

void HealthProbe::fail(const ApiError& error) {
  engine_->abort(engine_id_);
  finish(error.message);
}

void HealthProbe::finish(const std::string& failure) {
  if (!open_) return;
  open_ = false;
  const auto keep_alive = shared_from_this();
  router_.remove(thread_, user_);
  if (const Done done = std::move(done_)) done(failure);
}

}  // namespace glint
