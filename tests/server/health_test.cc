// Health, readiness, the watchdog, the queue's bound as HTTP shows it, and the metrics page.
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/log.h"
#include "life_fixture.h"
#include "metric_reader.h"
#include "support/temp_folder.h"

namespace glint {
namespace {

class HealthTest : public LifeTest {
 protected:
  [[nodiscard]] int status(std::string_view path) const { return get(path).status; }
  [[nodiscard]] std::map<std::string, double> metrics() const { return read_metrics(get("/metrics").body); }
  [[nodiscard]] double metric(const std::string& name, const std::string& more = "") const {
    const auto samples = metrics();
    const auto found =
        samples.find(name + R"({model_name="glm-5.3",engine="0")" + (more.empty() ? "" : "," + more) + "}");
    EXPECT_NE(found, samples.end()) << name << " " << more;
    return found == samples.end() ? -1 : found->second;
  }
};

TEST_F(HealthTest, LoadingAnswersEveryRouteOfHealth) {
  start(false);
  service->set_progress({"reading weights", 0.5, 7});
  for (const char* path : {"/health", "/health/ready", "/health_generate", "/ping", "/server_info"}) {
    const RawResponse response = get(path);
    EXPECT_EQ(response.status, 503) << path;
    EXPECT_EQ(OrderedJson::parse(response.body).at("percent"), 50) << path;
  }
  EXPECT_EQ(status("/metrics"), 200);
  EXPECT_EQ(status("/version"), 200);
  make_ready();
  EXPECT_EQ(status("/health"), 200);
  EXPECT_EQ(status("/health_generate"), 200);
}

TEST_F(HealthTest, ReadyMeansThatAForwardPassRanLately) {
  settings.health.ready_within = Ms(400);
  start();
  EXPECT_TRUE(eventually([&] { return status("/health/ready") == 200; })) << "the server's own probe";
  // Idle for several times the interval: probes keep it ready, and none of them is traffic.
  const uint64_t before = control->steps;
  EXPECT_TRUE(eventually([&] { return control->steps > before + 4; }));
  EXPECT_TRUE(eventually([&] { return status("/health/ready") == 200; }));
  EXPECT_EQ(stats().generated_tokens, 0U);
  EXPECT_EQ(metric("vllm:generation_tokens_total") +
                metric("vllm:request_success_total", R"(finished_reason="length")"),
            0);
  // A device that hangs: alive until the watchdog's limit, but soon not ready.
  control->hold();
  EXPECT_TRUE(eventually([&] { return status("/health/ready") == 503; }));
  EXPECT_EQ(OrderedJson::parse(get("/health/ready").body).at("state"), "not ready");
  EXPECT_EQ(status("/health"), 200);
  control->release();
  EXPECT_TRUE(eventually([&] { return status("/health/ready") == 200; }));
}

TEST_F(HealthTest, HealthGenerateRunsOneTokenAndStopsWithItsClient) {
  settings.health.ready_within = Ms(0);
  start();
  EXPECT_EQ(status("/health/ready"), 200);
  EXPECT_EQ(control->steps, 0U);
  EXPECT_EQ(status("/health_generate"), 200);
  EXPECT_EQ(control->steps, 1U);
  control->hold();
  {
    RawClient client(port());
    ASSERT_TRUE(client.send(get_text("/health_generate")));
    control->wait_held();
    RawClient second(port());
    ASSERT_TRUE(second.send(get_text("/health_generate")));
    ASSERT_TRUE(eventually([&] { return stats().waiting + stats().running == 2; }));
  }
  control->release();
  EXPECT_TRUE(eventually([&] { return empty(); }));
  EXPECT_TRUE(eventually([&] { return service->open_requests() == 0; }));
}

TEST_F(HealthTest, TheWatchdogReportsAStuckStepAndTheServerRecovers) {
  const TempFolder temporary;
  const std::filesystem::path dump = temporary.path() / "steps";
  settings.health.watchdog = {.step_limit = Ms(400), .dump_file = dump.string(), .exit = false};
  settings.health.ready_within = Ms(0);
  start();
  ASSERT_EQ(fetch(port(), completion(4, 3, false)).status, 200);
  control->hold();
  RawClient client(port());
  ASSERT_TRUE(client.send(completion(5, 2, false)));
  control->wait_held();
  EXPECT_TRUE(eventually([&] { return status("/health") == 503; }));
  const OrderedJson health = OrderedJson::parse(get("/health").body);
  EXPECT_EQ(health.at("state"), "stuck");
  EXPECT_EQ(health.at("step"), 4);
  EXPECT_EQ(status("/health_generate"), 503);
  EXPECT_TRUE(eventually([&] { return std::filesystem::exists(dump); }));
  std::this_thread::sleep_for(Ms(500));
  EXPECT_EQ(metric("glint:steps_over_limit_total"), 1) << "once for a step";
  std::stringstream text;
  text << std::ifstream(dump).rdbuf();
  const std::string lines = text.str();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 4);
  EXPECT_NE(lines.find("step 4: began "), std::string::npos) << lines;
  EXPECT_NE(lines.find("1 sequences, 5 tokens, 1 sampled, 1 running, 0 waiting, 1 pages held, still running"),
            std::string::npos)
      << lines;
  control->release();
  EXPECT_EQ(client.read()->status, 200);
  EXPECT_TRUE(eventually([&] { return status("/health") == 200; }));
  EXPECT_EQ(exits, 0);
}

TEST_F(HealthTest, TheWatchdogEndsTheProcessIfToldTo) {
  settings.health.watchdog = {.step_limit = Ms(30), .dump_file = "/nonexistent/dump", .exit = true};
  start();
  control->hold();
  RawClient client(port());
  ASSERT_TRUE(client.send(completion(5, 2, false)));
  EXPECT_TRUE(eventually([&] { return exits == 1; }));
}

TEST_F(HealthTest, AFullQueueIs503WithRetryAfter) {
  settings.health.ready_within = Ms(0);
  serving.scheduler.max_num_seqs = 1;
  serving.queue.requests = 1;
  start();
  control->hold();
  RawClient running(port());
  ASSERT_TRUE(running.send(completion(4, 2, true)));
  control->wait_held();
  RawClient waiting(port());
  ASSERT_TRUE(waiting.send(completion(4, 2, false)));
  ASSERT_TRUE(eventually([&] { return stats().waiting == 1; }));
  for (const bool stream : {false, true}) {
    const RawResponse refused = fetch(port(), completion(4, 2, stream));
    EXPECT_EQ(refused.status, 503);
    EXPECT_GE(std::stoi(refused.headers.at("retry-after")), 1);
    const OrderedJson error = OrderedJson::parse(refused.body).at("error");
    EXPECT_EQ(error.at("code"), 503);
    EXPECT_EQ(error.at("type"), "Service Unavailable");
    EXPECT_NE(error.at("message").get<std::string>().find("--max-queued-requests is 1"), std::string::npos);
  }
  EXPECT_EQ(metric("vllm:admission_rejections_total", R"(reason="max_queued_requests")"), 2);
  EXPECT_EQ(metric("vllm:admission_rejections_total", R"(reason="max_queued_tokens")"), 0);
  EXPECT_EQ(metric("vllm:num_requests_waiting"), 1);
  EXPECT_EQ(metric("vllm:num_requests_waiting_by_reason", R"(reason="capacity")"), 1);
  // All choices of one request or none.
  control->release();
  EXPECT_EQ(waiting.read()->status, 200);
  EXPECT_EQ(running.read()->status, 200);
  EXPECT_TRUE(eventually([&] { return empty(); }));
}

TEST_F(HealthTest, TheMetricsCountWhatHappened) {
  settings.health.ready_within = Ms(0);
  settings.metrics.sglang = true;
  start();
  control->step_us = 4000;
  ASSERT_EQ(fetch(port(), completion(70, 5, false)).status, 200);
  ASSERT_EQ(fetch(port(), completion(70, 5, true)).status, 200);
  EXPECT_TRUE(eventually([&] { return stats().steps == 11; }));  // two chunks, four steps; one, four
  const auto samples = metrics();
  for (const auto& [name, value] : samples) EXPECT_NE(name.substr(0, 4), "BAD ") << name;
  EXPECT_EQ(metric("vllm:prompt_tokens_total"), 140);
  EXPECT_EQ(metric("vllm:prompt_tokens_cached_total"), 64);
  EXPECT_EQ(metric("vllm:prompt_tokens_by_source_total", R"(source="local_compute")"), 76);
  EXPECT_EQ(metric("vllm:generation_tokens_total"), 10);
  EXPECT_EQ(metric("vllm:prefix_cache_queries_total"), 140);
  EXPECT_EQ(metric("vllm:prefix_cache_hits_total"), 64);
  EXPECT_EQ(metric("vllm:request_success_total", R"(finished_reason="length")"), 2);
  EXPECT_EQ(metric("vllm:request_success_total", R"(finished_reason="abort")"), 0);
  EXPECT_EQ(metric("vllm:time_to_first_token_seconds_count"), 2);
  EXPECT_EQ(metric("vllm:inter_token_latency_seconds_count"), 8);
  EXPECT_EQ(metric("vllm:time_per_output_token_seconds_count"), 8);
  EXPECT_EQ(metric("vllm:request_time_per_output_token_seconds_count"), 2);
  EXPECT_EQ(metric("vllm:request_prompt_tokens_sum"), 140);
  EXPECT_EQ(metric("vllm:request_generation_tokens_sum"), 10);
  EXPECT_EQ(metric("vllm:request_prefill_kv_computed_tokens_sum"), 76);
  EXPECT_EQ(metric("vllm:request_params_n_sum"), 2);
  EXPECT_EQ(metric("vllm:request_params_max_tokens_sum"), 10);
  EXPECT_EQ(metric("vllm:request_max_num_generation_tokens_sum"), 10);
  EXPECT_EQ(metric("vllm:iteration_tokens_total_count"), 11);
  EXPECT_EQ(metric("vllm:iteration_tokens_total_sum"), 76 + 8);
  EXPECT_EQ(metric("vllm:iteration_tokens_total_bucket", R"(le="1.0")"), 8);
  EXPECT_EQ(metric("vllm:iteration_tokens_total_bucket", R"(le="8.0")"), 10);
  EXPECT_EQ(metric("vllm:num_requests_running"), 0);
  EXPECT_EQ(metric("vllm:kv_cache_usage_perc"), 0);
  EXPECT_EQ(metric("glint:scheduler_stalls_total"), 0);
  // A step takes 4 ms at least: times add up.
  EXPECT_GE(metric("vllm:time_to_first_token_seconds_sum"), 3 * 0.004);
  EXPECT_GE(metric("vllm:request_decode_time_seconds_sum"), 8 * 0.004);
  EXPECT_GE(metric("vllm:request_inference_time_seconds_sum"), 11 * 0.004);
  EXPECT_GE(metric("vllm:e2e_request_latency_seconds_sum"),
            metric("vllm:request_inference_time_seconds_sum"));
  EXPECT_GE(metric("glint:step_seconds_sum", R"(phase="execute")"), 11 * 0.004);
  EXPECT_EQ(metric("vllm:request_prompt_tokens_bucket", R"(le="1000.0")"), 2);
  EXPECT_EQ(
      samples.count(R"(vllm:request_prompt_tokens_bucket{model_name="glm-5.3",engine="0",le="2000.0"})"), 0U)
      << "no bucket above max_model_len";
  EXPECT_EQ(samples.at(R"(sglang:generation_tokens_total{model_name="glm-5.3",engine_type="unified"})"), 10);
  EXPECT_EQ(get("/metrics").headers.at("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  const OrderedJson info = OrderedJson::parse(get("/server_info").body);
  EXPECT_EQ(info.at("max_model_len"), 1024);
  EXPECT_TRUE(info.at("internal_states").at(0).at("avg_spec_accept_length").is_null());
  EXPECT_EQ(OrderedJson::parse(get("/load").body).at("server_load"), 0);
}

TEST_F(HealthTest, AnIdleServerCostsUnderOnePercent) {
  start();
  ASSERT_EQ(fetch(port(), completion(5, 3, true)).status, 200);
  std::this_thread::sleep_for(Ms(100));
  const auto used = [] {
    rusage use{};
    getrusage(RUSAGE_SELF, &use);
    return static_cast<double>(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           1e-6 * static_cast<double>(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
  };
  const double before = used();
  std::this_thread::sleep_for(Ms(2000));
  EXPECT_LT(used() - before, 0.02);
}

TEST(StatsLog, LinesAsPeopleGrepForThem) {
  StatsLog log;
  ServingMetrics requests;
  EngineStats stats;
  stats.pages_total = 200;
  ASSERT_EQ(log.lines(stats, requests, 10).size(), 1U);
  EXPECT_TRUE(log.lines(stats, requests, 10)[0].idle);
  stats.running = 8;
  stats.pages_used = 5;
  stats.prefix_queries_tokens = 1000;
  stats.prefix_hits_tokens = 450;
  requests.prompt_tokens = 10240;
  requests.generation_tokens = 5120;
  stats.drafts = {.drafts = 184, .draft_tokens = 552, .accepted_tokens = 397, .accepted_at = {164, 132, 101}};
  const auto lines = log.lines(stats, requests, 10);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_FALSE(lines[0].idle);
  EXPECT_EQ(lines[0].text,
            "Engine 000: Avg prompt throughput: 1024.0 tokens/s, Avg generation throughput: 512.0 tokens/s, "
            "Running: 8 reqs, Waiting: 0 reqs, KV cache usage: 2.5%, Prefix cache hit rate: 45.0%");
  EXPECT_EQ(
      lines[1].text,
      "SpecDecoding metrics: Mean acceptance length: 3.16, Accepted throughput: 39.70 tokens/s, Drafted "
      "throughput: 55.20 tokens/s, Accepted: 397 tokens, Drafted: 552 tokens, Per-position acceptance "
      "rate: 0.891, 0.717, 0.549, Avg Draft acceptance rate: 71.9%");
  EXPECT_EQ(log.lines(stats, requests, 10).size(), 1U);
}

TEST(MetricsCompat, Choices) {
  EXPECT_TRUE(parse_metrics_compat("vllm").vllm);
  EXPECT_FALSE(parse_metrics_compat("vllm").sglang);
  EXPECT_TRUE(parse_metrics_compat("vllm,sglang").sglang);
  EXPECT_FALSE(parse_metrics_compat("sglang").vllm);
  EXPECT_THROW(parse_metrics_compat("vllm,prom"), Error);
}

}  // namespace
}  // namespace glint
