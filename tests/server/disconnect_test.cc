// A client that leaves frees its request, wherever it is; a client that does not read harms nobody but
// itself.
#include <sys/socket.h>

#include "base/log.h"
#include "life_fixture.h"

namespace glint {
namespace {

class DisconnectTest : public LifeTest {
 protected:
  DisconnectTest() {
    settings.health.ready_within = Ms(0);
    control->step_us = 1000;
  }
};

TEST_F(DisconnectTest, AWaitingRequest) {
  serving.scheduler.max_num_seqs = 1;
  control->step_us = 5000;
  start();
  for (const bool stream : {false, true}) {
    RawClient running(port());
    ASSERT_TRUE(running.send(completion(4, 1000, true)));
    ASSERT_TRUE(eventually([&] { return stats().running == 1; }));
    {
      RawClient waiting(port());
      ASSERT_TRUE(waiting.send(completion(4, 1000, stream)));
      ASSERT_TRUE(eventually([&] { return stats().waiting == 1; }));
    }
    EXPECT_TRUE(eventually([&] { return stats().waiting == 0; }));
    EXPECT_EQ(stats().running, 1);
    running.close();
    EXPECT_TRUE(eventually([&] { return empty(); }));
  }
}

TEST_F(DisconnectTest, AnAbortTakesEffectBeforeTheNextStep) {
  start();
  control->hold();
  RawClient client(port());
  ASSERT_TRUE(client.send(completion(4, 1000, false)));
  control->wait_held();
  client.close();
  ASSERT_TRUE(eventually([&] { return service->http().connections() == 0; }));
  std::this_thread::sleep_for(Ms(20));
  const uint64_t steps = control->steps;
  control->release();
  EXPECT_TRUE(eventually([&] { return empty(); }));
  EXPECT_EQ(control->steps, steps) << "not one step more";
}

TEST_F(DisconnectTest, APrefillingRequest) {
  start();
  for (const bool stream : {false, true}) {
    control->hold();
    RawClient client(port());
    ASSERT_TRUE(client.send(completion(1000, 10, stream)));  // 16 chunks
    control->wait_held();
    client.reset();
    ASSERT_TRUE(eventually([&] { return service->http().connections() == 0; }));
    control->release();
    EXPECT_TRUE(eventually([&] { return empty(); }));
    EXPECT_EQ(stats().generated_tokens, 0U);
  }
}

TEST_F(DisconnectTest, ADecodingRequest) {
  control->step_us = 5000;
  start();
  for (const bool stream : {false, true}) {
    const uint64_t before = stats().generated_tokens;
    RawClient client(port());
    ASSERT_TRUE(client.send(completion(10, 1000, stream)));
    ASSERT_TRUE(eventually([&] { return stats().generated_tokens > before + 5; }));
    client.close();
    EXPECT_TRUE(eventually([&] { return empty(); }));
    EXPECT_LT(stats().generated_tokens, before + 1000);
  }
  EXPECT_EQ(service->http().counts().clients_gone, 2U);
  EXPECT_NE(
      get("/metrics")
          .body.find(
              R"(vllm:request_success_total{model_name="glm-5.3",engine="0",finished_reason="abort"} 2)"),
      std::string::npos);
}

TEST_F(DisconnectTest, ARequestThatWaitsForItsBodyToBeRead) {
  start();
  // The client has gone before the worker pool comes to its request: it never reaches the engine.
  for (int i = 0; i < 50; ++i) {
    RawClient client(port());
    ASSERT_TRUE(client.send(completion(1000, 1000, false)));
    client.reset();
  }
  EXPECT_TRUE(eventually([&] { return service->http().connections() == 0 && empty(); }));
  EXPECT_EQ(fetch(port(), completion(4, 2, false)).status, 200);
}

/// Reads `tokens` chunks of a stream; the time that took.
std::chrono::milliseconds read_chunks(RawClient& client, int tokens) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < tokens; ++i) {
    if (client.read_until("\n\n", 30'000).empty()) return std::chrono::milliseconds(-1);
  }
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
}

/// A client whose system takes little for it.
RawClient reluctant(int port) {
  RawClient client(port);
  const int small = 1;
  setsockopt(client.handle(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  return client;
}

TEST_F(DisconnectTest, AReaderThatNeverReadsEndsAloneAndCounted) {
  http.backlog_bytes_max = 64 << 10;
  http.send_buffer_bytes = 4096;
  control->step_us = 2000;
  serving.max_model_len = 4096;
  start();
  const RawClient slow = reluctant(port());
  ASSERT_TRUE(slow.send(completion(4, 4000, true)));
  ASSERT_TRUE(eventually([&] { return stats().running == 1; }));
  RawClient fast(port());
  ASSERT_TRUE(fast.send(completion(4, 4000, true)));
  int chunks = 0;
  while (service->http().counts().ended_backlog == 0 && chunks < 4000) {
    ASSERT_GE(read_chunks(fast, 10).count(), 0) << "the reader beside it was ended too";
    chunks += 10;
  }
  EXPECT_EQ(service->http().counts().ended_backlog, 1U);
  EXPECT_GE(read_chunks(fast, 100).count(), 0);
  EXPECT_EQ(stats().running, 1) << "its request has ended, the other one has not";
  EXPECT_EQ(service->http().counts().ended_backlog, 1U);
  fast.close();
  EXPECT_NE(get("/metrics").body.find(R"(reason="backlog_full"} 1)"), std::string::npos);
}

TEST_F(DisconnectTest, AReaderThatTakesNothingForTooLongIsEnded) {
  http.send_buffer_bytes = 4096;
  http.write_stall_timeout = Ms(200);
  control->step_us = 500;
  start();
  const RawClient slow = reluctant(port());
  ASSERT_TRUE(slow.send(completion(4, 1000, true)));
  EXPECT_TRUE(eventually([&] { return service->http().counts().ended_stalled == 1; }, 20'000));
  EXPECT_TRUE(eventually([&] { return empty(); }));
}

TEST_F(DisconnectTest, AReaderThatNeverReadsDoesNotSlowItsNeighbour) {
  http.send_buffer_bytes = 4096;
  control->step_us = 2000;
  start();
  RawClient alone(port());
  ASSERT_TRUE(alone.send(completion(4, 400, true)));
  const auto undisturbed = read_chunks(alone, 300);
  alone.close();
  ASSERT_TRUE(eventually([&] { return empty(); }));
  const RawClient slow = reluctant(port());
  ASSERT_TRUE(slow.send(completion(4, 1000, true)));
  ASSERT_TRUE(eventually([&] { return stats().running == 1; }));
  RawClient fast(port());
  ASSERT_TRUE(fast.send(completion(4, 400, true)));
  const auto beside = read_chunks(fast, 300);
  std::printf("300 tokens: %lld ms alone, %lld ms beside a reader that never reads\n",
              static_cast<long long>(undisturbed.count()), static_cast<long long>(beside.count()));
  // Roughly, for the machine may be busy; waiting for the reader would take seconds.
  EXPECT_LT(beside, 2 * undisturbed + Ms(1000));
}

}  // namespace
}  // namespace glint
