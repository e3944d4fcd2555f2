#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "quantize/plan.h"
#include "quantize/publish.h"
#include "quantize/verify.h"

namespace glint::quantize {

namespace {

std::vector<std::string> strings_of(const Json& object, const char* key) {
  std::vector<std::string> list;
  if (!object.contains(key) || !object.at(key).is_array()) return list;
  for (const Json& entry : object.at(key)) {
    if (entry.is_string()) list.push_back(entry.get<std::string>());
  }
  return list;
}

/// Published lists name modules exactly or with a wildcard at the end.
bool listed(const std::string& module, const std::vector<std::string>& patterns) {
  return is_excluded(module, patterns);
}

std::string text_of(const Json& object, const char* key) {
  return object.contains(key) && object.at(key).is_string() ? object.at(key).get<std::string>() : "";
}

/// Every module is in `form` or listed, and none is both; routed experts only, if the form is theirs alone.
void check_list(const std::vector<ModuleForm>& forms, const std::string& form, bool experts_only,
                const std::vector<std::string>& patterns, const char* key, VerifyReport& report) {
  std::map<std::string, int64_t> faults;
  for (const ModuleForm& each : forms) {
    const bool stored = each.form == form;
    const bool expected = !listed(each.module, patterns) && (!experts_only || each.routed_expert);
    if (stored == expected) continue;
    const std::string what =
        stored ? cat(" is ", form, ", which ", key, " rules out")
               : cat(" is ", each.form, ", expected ", form, " because ", key, " does not list it");
    if (++faults[what] <= 3) report.faults.push_back(cat("config.json: ", each.module, what));
  }
  for (const auto& [what, count] : faults) {
    if (count > 3) report.faults.push_back(cat("config.json: ", count - 3, " more modules: each", what));
  }
}

/// NVFP4 in the routed experts, FP8 elsewhere, BF16 where the list says so.
void check_mixed(const std::vector<ModuleForm>& forms, const std::vector<std::string>& ignore,
                 VerifyReport& report) {
  int64_t faults = 0;
  for (const ModuleForm& each : forms) {
    const std::string wanted = listed(each.module, ignore) ? "BF16"
                               : each.routed_expert        ? "NVFP4"
                                                           : "FP8 blocks";
    if (each.form == wanted || ++faults > 3) continue;
    report.faults.push_back(cat("config.json: ", each.module, " is ", each.form, ", expected ", wanted));
  }
  if (faults > 3)
    report.faults.push_back(
        cat("config.json: ", faults - 3, " more modules are in another form than it says"));
}

int64_t count_of(const std::vector<ModuleForm>& forms, const std::string& form) {
  return std::count_if(forms.begin(), forms.end(), [&](const ModuleForm& each) { return each.form == form; });
}

void expect_none(const std::vector<ModuleForm>& forms, const std::string& form, const std::string& why,
                 VerifyReport& report) {
  const int64_t count = count_of(forms, form);
  if (count > 0)
    report.faults.push_back(cat("config.json: ", why, ", but ", count, " modules are stored as ", form));
}

void check_hf_file(const std::filesystem::path& folder, const Json& quantization, VerifyReport& report) {
  const std::filesystem::path path = folder / "hf_quant_config.json";
  if (!std::filesystem::exists(path)) {
    report.faults.push_back("hf_quant_config.json is missing, which ModelOpt's layout has");
    return;
  }
  const Json file = parse_json(read_file(path), path.string());
  const Json inner =
      file.is_object() && file.contains("quantization") ? file.at("quantization") : Json::object();
  if (strings_of(inner, "exclude_modules") != strings_of(quantization, "ignore")) {
    report.faults.push_back("hf_quant_config.json: exclude_modules is not the list of config.json's ignore");
  }
  if (text_of(inner, "quant_algo") != text_of(quantization, "quant_algo")) {
    report.faults.push_back("hf_quant_config.json: quant_algo is not that of config.json");
  }
  if (inner.value("group_size", 0) != 16)
    report.faults.push_back("hf_quant_config.json: group_size is not 16");
  const bool fp8_cache = text_of(inner, "kv_cache_quant_algo") == "FP8";
  if (fp8_cache != quantization.contains("kv_cache_scheme")) {
    report.faults.push_back(
        "hf_quant_config.json: kv_cache_quant_algo disagrees with config.json's kv_cache_scheme");
  }
}

}  // namespace

void check_configs(const std::filesystem::path& folder, const std::vector<ModuleForm>& forms,
                   VerifyReport& report) {
  const Json config = parse_json(read_file(folder / "config.json"), "config.json");
  if (!config.contains("quantization_config") || !config.at("quantization_config").is_object()) {
    expect_none(forms, "NVFP4", "there is no quantization_config", report);
    expect_none(forms, "FP8 blocks", "there is no quantization_config", report);
    return;
  }
  const Json& quantization = config.at("quantization_config");
  const std::string method = text_of(quantization, "quant_method");
  const std::string algorithm = text_of(quantization, "quant_algo");
  if (method == "fp8") {
    expect_none(forms, "NVFP4", "quant_method is fp8", report);
    check_list(forms, "FP8 blocks", false, strings_of(quantization, "modules_to_not_convert"),
               "modules_to_not_convert", report);
  } else if (method == "modelopt" && algorithm == "NVFP4") {
    expect_none(forms, "FP8 blocks", "quant_algo is NVFP4", report);
    check_list(forms, "NVFP4", true, strings_of(quantization, "ignore"), "ignore", report);
    check_hf_file(folder, quantization, report);
  } else if (method == "modelopt" && algorithm == "MIXED_PRECISION") {
    check_mixed(forms, strings_of(quantization, "ignore"), report);
    check_hf_file(folder, quantization, report);
  } else {
    report.warnings.push_back(cat("config.json: quant_method \"", method, "\" with quant_algo \"", algorithm,
                                  "\" was not compared with what is stored"));
  }
}

std::optional<Json> read_manifest(const std::filesystem::path& folder, VerifyReport& report) {
  const std::filesystem::path path = folder / kManifestName;
  if (!std::filesystem::exists(path)) {
    report.warnings.push_back(cat("no ", kManifestName, ": hashes were not checked"));
    return std::nullopt;
  }
  try {
    Json manifest = parse_json(read_file(path), path.string());
    for (const Json& file : manifest.at("output").at("files")) {
      (void)file.at("name").get<std::string>();
      (void)file.at("sha256").get<std::string>();
      (void)file.at("bytes").get<int64_t>();
    }
    (void)manifest.at("options").at("scale_search").get<std::string>();
    return manifest;
  } catch (const std::exception& error) {
    report.faults.push_back(cat(kManifestName, ": cannot be read: ", error.what()));
    return std::nullopt;
  }
}

}  // namespace glint::quantize
