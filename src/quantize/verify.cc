#include "quantize/verify.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/threads.h"
#include "quantize/checkpoint_view.h"
#include "quantize/publish.h"
#include "quantize/read_ahead.h"
#include "base/digest.h"
#include "quantize/verify_values.h"

namespace glint::quantize {

namespace {

constexpr double kExpectedLow = 0.07;
constexpr double kExpectedHigh = 0.12;
constexpr size_t kFaultsMax = 200;

class Verifier {
 public:
  explicit Verifier(const VerifyOptions& options) : options_(options), pool_(options.workers) {}

  VerifyReport run() {
    if (!std::filesystem::is_directory(options_.folder)) {
      fail(ErrorKind::not_found, options_.folder.string(),
           ": not a folder, expected one that holds a checkpoint");
    }
    manifest_ = read_manifest(options_.folder, report_);
    plan_work();
    if (manifest_) check_files();
    if (view_) {
      check_forms();
      check_values();
      if (source_) compare();
    }
    if (report_.faults.size() > kFaultsMax) {
      const size_t more = report_.faults.size() - kFaultsMax;
      report_.faults.resize(kFaultsMax);
      report_.faults.push_back(cat(more, " more faults"));
    }
    return std::move(report_);
  }

 private:
  /// Opens what can be opened; a folder whose structure is wrong still gets its hashes checked.
  void plan_work() {
    if (!options_.against.empty()) source_.emplace(options_.against);
    try {
      view_.emplace(options_.folder);
      report_.tensors = view_->stored_tensors();
      bytes_total_ += view_->file_bytes();
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::internal) throw;
      report_.faults.push_back(error.what());
    }
    if (view_ && source_) bytes_total_ += 2 * view_->file_bytes();
    if (manifest_) {
      for (const Json& file : manifest_->at("output").at("files"))
        bytes_total_ += file.at("bytes").get<int64_t>();
    }
  }

  void add_fault(const std::string& fault) {
    const std::lock_guard lock(mutex_);
    report_.faults.push_back(fault);
  }

  void advance(int64_t bytes, int worker) {
    bytes_done_ += bytes;
    if (worker == 0 && options_.progress) options_.progress(bytes_done_, bytes_total_);
  }

  void check_files() {
    const Json& files = manifest_->at("output").at("files");
    std::set<std::string> names;
    for (const Json& file : files) names.insert(file.at("name").get<std::string>());
    for (const auto& entry : std::filesystem::directory_iterator(options_.folder)) {
      const std::string name = entry.path().filename().string();
      if (name.ends_with(".safetensors") && names.count(name) == 0) {
        report_.faults.push_back(cat(name, ": is not in ", kManifestName));
      }
    }
    std::vector<std::string> faults(files.size());
    pool_.run(static_cast<int64_t>(files.size()), [&](int64_t item, int worker) {
      faults[static_cast<size_t>(item)] = file_fault(files.at(static_cast<size_t>(item)));
      advance(files.at(static_cast<size_t>(item)).at("bytes").get<int64_t>(), worker);
    });
    for (const std::string& fault : faults) {
      if (!fault.empty()) report_.faults.push_back(fault);
    }
    report_.files_hashed = static_cast<int64_t>(files.size());
  }

  [[nodiscard]] std::string file_fault(const Json& file) const {
    const auto name = file.at("name").get<std::string>();
    if (name.find('/') != std::string::npos)
      return cat(kManifestName, ": names a file outside of the folder");
    const std::filesystem::path path = options_.folder / name;
    std::error_code error;
    const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path, error));
    if (error) return cat(name, ": is missing, which ", kManifestName, " lists");
    if (bytes != file.at("bytes").get<int64_t>()) {
      return cat(name, ": has ", bytes, " bytes, expected ", file.at("bytes").get<int64_t>());
    }
    if (hash_of(path, bytes) != file.at("sha256").get<std::string>()) {
      return cat(name, ": its SHA-256 is not that of ", kManifestName);
    }
    return "";
  }

  static std::string hash_of(const std::filesystem::path& path, int64_t bytes) {
    Sha256 hash;
    const SourceReader reader(path, bytes, 0);
    std::vector<std::byte> part(size_t{1} << 20);
    for (int64_t place = 0; place < bytes; place += static_cast<int64_t>(part.size())) {
      part.resize(static_cast<size_t>(std::min<int64_t>(static_cast<int64_t>(part.size()), bytes - place)));
      reader.read(place, part);
      hash.update(part);
    }
    return hash.hex();
  }

  void check_forms() {
    std::vector<ModuleForm> forms;
    for (const ViewTensor& tensor : view_->tensors()) {
      if (!tensor.is_projection()) continue;
      const bool routed = tensor.model.role == TensorRole::routed_expert &&
                          tensor.model.layer < view_->config().num_hidden_layers;
      forms.push_back({module_of(tensor.model.name), std::string(form_name(tensor.form)), routed});
    }
    check_configs(options_.folder, forms, report_);
  }

  [[nodiscard]] ScaleSearch search() const {
    const bool mse = manifest_ && manifest_->at("options").at("scale_search") == "mse";
    return mse ? ScaleSearch::mse : ScaleSearch::max;
  }

  /// Gate's up and up's gate in a list in the order of the model.
  static const ViewTensor* partner_of(const std::vector<ViewTensor>& tensors, size_t place) {
    const ViewTensor& tensor = tensors[place];
    if (tensor.model.role != TensorRole::routed_expert) return nullptr;
    if (tensor.model.name.ends_with(".gate_proj.weight")) return &tensors[place + 1];
    if (tensor.model.name.ends_with(".up_proj.weight")) return &tensors[place - 1];
    return nullptr;
  }

  void check_values() {
    const auto& tensors = view_->tensors();
    std::vector<std::vector<std::string>> faults(tensors.size());
    pool_.run(static_cast<int64_t>(tensors.size()), [&](int64_t item, int worker) {
      const auto place = static_cast<size_t>(item);
      const ViewTensor* partner = partner_of(tensors, place);
      if (partner != nullptr && partner->form != tensors[place].form) {
        faults[place].push_back(cat(tensors[place].model.name, " is ", form_name(tensors[place].form),
                                    ", but ", partner->model.name, " is ", form_name(partner->form)));
        partner = nullptr;
      }
      for (std::string& fault : value_faults(tensors[place], partner, search() == ScaleSearch::max)) {
        faults[place].push_back(std::move(fault));
      }
      advance(static_cast<int64_t>(tensors[place].stored[0].size()), worker);
    });
    for (auto& list : faults) {
      for (std::string& fault : list) report_.faults.push_back(std::move(fault));
    }
  }

  void compare() {
    const auto& tensors = view_->tensors();
    const auto& sources = source_->tensors();
    if (tensors.size() != sources.size()) {
      return add_fault(
          cat(options_.against.string(), ": has ", sources.size(), " weights, expected ", tensors.size()));
    }
    pool_.run(static_cast<int64_t>(tensors.size()), [&](int64_t item, int worker) {
      const auto place = static_cast<size_t>(item);
      compare_tensor(tensors[place], sources[place], partner_of(sources, place));
      advance(2 * static_cast<int64_t>(tensors[place].stored[0].size()), worker);
    });
    std::sort(report_.compared.begin(), report_.compared.end(),
              [](const TensorComparison& a, const TensorComparison& b) {
                return std::pair(-a.relative_rmse, a.tensor) < std::pair(-b.relative_rmse, b.tensor);
              });
    std::sort(report_.warnings.begin(), report_.warnings.end());
  }

  void compare_tensor(const ViewTensor& tensor, const ViewTensor& source, const ViewTensor* source_partner) {
    if (tensor.model.name != source.model.name || tensor.model.shape != source.model.shape) {
      return add_fault(cat(options_.against.string(), ": ", source.model.name, " ",
                           shape_text(source.model.shape), " stands where ", tensor.model.name, " ",
                           shape_text(tensor.model.shape), " is expected"));
    }
    const bool copied = tensor.form == source.form;
    const auto fault =
        copied ? copy_fault(tensor, source) : recode_fault(tensor, source, source_partner, search());
    TensorComparison result;
    if (!copied) result = compare_values(tensor, source);
    const std::lock_guard lock(mutex_);
    if (fault) report_.faults.push_back(*fault);
    if (copied) {
      report_.copied_equal += fault ? 0 : 1;
      return;
    }
    report_.recoded_equal += fault ? 0 : 1;
    const bool unusual = tensor.form == Form::nvfp4 && result.relative_rmse > 0 &&
                         (result.relative_rmse < kExpectedLow || result.relative_rmse > kExpectedHigh);
    if (unusual) {
      report_.warnings.push_back(cat(result.tensor, ": relative RMSE ", result.relative_rmse, ", usual are ",
                                     kExpectedLow, " to ", kExpectedHigh));
    }
    report_.compared.push_back(std::move(result));
  }

  const VerifyOptions& options_;
  ThreadPool pool_;
  VerifyReport report_;
  std::optional<Json> manifest_;
  std::optional<CheckpointView> view_;
  std::optional<CheckpointView> source_;
  std::mutex mutex_;
  std::atomic<int64_t> bytes_done_{0};
  int64_t bytes_total_ = 0;
};

}  // namespace

VerifyReport verify_checkpoint(const VerifyOptions& options) {
  return Verifier(options).run();
}

}  // namespace glint::quantize
