#include "server/request_body.h"

#include <algorithm>

#include "base/log.h"
#include "server/api_error.h"
#include "server/fields.h"
#include "text/python_json.h"

namespace glint {

namespace {

constexpr size_t kRequestIdBytesMax = 128;

/// Deep enough for any tool schema, small enough that nothing which walks the tree can run out of stack.
constexpr JsonLimits kBodyLimits{
    .depth_max = 128, .keys_max = 1U << 16, .values_max = size_t{1} << 22, .refuse_duplicate_keys = false};

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The request's own template; a faulty one is the client's fault.
ChatTemplate own_template(const ChatRequest& request) {
  try {
    return ChatTemplate::from_source(request.chat_template, "chat_template");
  } catch (const Error& error) {
    refuse_field("chat_template", error.what());
  }
}

}  // namespace

OrderedJson parse_body(std::string_view text) {
  OrderedJson body;
  try {
    body = parse_python_json(text, "the body", kBodyLimits);
  } catch (const Error& error) {
    refuse_body("body", error.what());
  }
  if (!body.is_object()) refuse_body("body", "the body must be a JSON object");
  return body;
}

void check_model(const std::string& name, const ApiSettings& settings) {
  if (name.empty() || contains(settings.model_names, name) || contains(settings.model_aliases, name)) return;
  throw ApiRefusal({404, "NotFoundError", cat("The model `", shortened(name), "` does not exist."), "model"});
}

void check_model(const OrderedJson& body, const ApiSettings& settings) {
  Fields fields(body);
  const std::string name = fields.text("model").value_or("");
  fields.check();
  check_model(name, settings);
}

std::string clean_request_id(std::string_view id) {
  std::string clean;
  for (const char c : id.substr(0, kRequestIdBytesMax)) {
    if (c > ' ' && c < 0x7F && c != '"' && c != '\\') clean += c;
  }
  return clean;
}

ChatPrompt make_chat_prompt(const OrderedJson& body, bool add_special_tokens, const ServedModel& model,
                            const ApiSettings& settings) {
  if (!model.chat_template) {
    refuse_field("messages", "the model has no chat template; use /v1/completions");
  }
  ChatRequestOptions options;
  options.default_template_kwargs = settings.default_chat_template_kwargs;
  options.trust_request_chat_template = settings.trust_request_chat_template;
  ChatPrompt prompt;
  prompt.request = parse_chat_request(body, options);
  for (const std::string& warning : prompt.request.warnings) log_warning(warning);
  prompt.rendered = prompt.request.chat_template.empty()
                        ? model.chat_template->render(prompt.request)
                        : own_template(prompt.request).render(prompt.request);
  prompt.tokens = model.tokenizer->encode(prompt.rendered.prompt, add_special_tokens);
  return prompt;
}

std::vector<TokenId> parse_token_ids(const OrderedJson& list, const std::string& field, int64_t vocab_size) {
  std::vector<TokenId> ids;
  ids.reserve(list.size());
  for (const OrderedJson& value : list) {
    if (!value.is_number_integer()) {
      refuse_body("body." + field, cat("body.", field, ": expected token ids, all of them integers"));
    }
    const auto id = value.is_number_unsigned() ? value.get<uint64_t>() : UINT64_MAX;
    if (id >= static_cast<uint64_t>(vocab_size)) {
      refuse_field(field, field, " holds the token id ", dump_json(value), "; the vocabulary has ",
                   vocab_size, " ids.");
    }
    ids.push_back(static_cast<TokenId>(id));
  }
  return ids;
}

}  // namespace glint
