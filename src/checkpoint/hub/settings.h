// Where models come from and go to: the environment variables of huggingface_hub, with its defaults.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include "checkpoint/hub/http_client.h"

namespace glint::hub {

struct HubSettings {
  Url endpoint;  // HF_ENDPOINT, https://huggingface.co
  std::filesystem::path
      cache;             // HF_HUB_CACHE, else HF_HOME/hub, else XDG_CACHE_HOME or ~/.cache + /huggingface/hub
  std::string token;     // HF_TOKEN, else the file HF_TOKEN_PATH, else HF_HOME/token; never printed
  bool offline = false;  // HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE
  bool progress = true;  // not HF_HUB_DISABLE_PROGRESS_BARS
  HttpSettings http;  // HF_HUB_ETAG_TIMEOUT, HF_HUB_DOWNLOAD_TIMEOUT, HTTP_PROXY, HTTPS_PROXY, NO_PROXY ...
  int connections = 8;
  int attempts = 6;                              // of a request that brings nothing new
  std::chrono::milliseconds first_pause{1'000};  // before the second attempt; doubles each time
  std::chrono::milliseconds longest_pause{30'000};
  std::chrono::milliseconds longest_retry_after{300'000};  // what a server may ask for
};

/// The value of an environment variable, or nullptr.
using Environment = std::function<const char*(const char* name)>;

/// Throws bad_input naming the variable for a value that cannot be used.
HubSettings hub_settings(const Environment& environment);
/// From the environment of this process.
HubSettings hub_settings();

}  // namespace glint::hub
