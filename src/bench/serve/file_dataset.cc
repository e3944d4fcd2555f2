#include <array>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "bench/serve/datasets.h"
#include "text/python_json.h"

namespace glint::bench {

namespace {

struct Row {
  OrderedJson value;
  std::string place;  // "chats.jsonl:3"
};

std::vector<Row> rows_of_lines(const std::filesystem::path& path, std::string_view text) {
  std::vector<Row> rows;
  int64_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    Row row;
    row.place = cat(path.string(), ":", number);
    row.value = parse_python_json(line, row.place);
    if (!row.value.is_object()) fail(ErrorKind::bad_input, row.place, ": expected an object");
    rows.push_back(std::move(row));
  }
  return rows;
}

/// JSON Lines, or one array of objects.
std::vector<Row> read_rows(const std::filesystem::path& path) {
  const std::string text = read_file(path, size_t{1} << 32U);
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || text[first] != '[') return rows_of_lines(path, text);
  std::vector<Row> rows;
  size_t number = 0;
  for (OrderedJson& value : parse_python_json(text, path.string())) {
    Row row{std::move(value), cat(path.string(), ": entry ", number++)};
    if (!row.value.is_object()) fail(ErrorKind::bad_input, row.place, ": expected an object");
    rows.push_back(std::move(row));
  }
  return rows;
}

const std::string& text_field(const OrderedJson& object, const char* name, const std::string& place) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) {
    fail(ErrorKind::bad_input, place, ": expected a text in `", name, "`");
  }
  return found->get_ref<const std::string&>();
}

int64_t output_tokens(const Row& row) {
  const auto found = row.value.find("output_tokens");
  if (found == row.value.end()) {
    fail(ErrorKind::bad_input, row.place,
         ": If no output length is provided the custom dataset must contain an 'output_tokens' field "
         "(or give --custom-output-len)");
  }
  if (found->is_number()) return found->get<int64_t>();
  int64_t value = 0;
  if (found->is_string()) {
    const auto& text = found->get_ref<const std::string&>();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size()) return value;
  }
  fail(ErrorKind::bad_input, row.place,
       ": Invalid value for 'output_tokens' in custom dataset: ", python_dumps(*found),
       ". Must be an integer.");
}

class FileSampler {
 public:
  FileSampler(const FileDataset& dataset, const PromptTokenizer* tokenizer)
      : dataset_(dataset), tokenizer_(tokenizer) {}

  std::vector<SampleRequest> sample() {
    std::vector<Row> rows = wanted_rows();
    if (rows.empty()) fail(ErrorKind::bad_input, dataset_.path.string(), ": no row that can be sent");
    if (dataset_.shuffle) PythonRandom(seed()).shuffle(rows);
    const bool all = dataset_.num_prompts <= 0;
    for (const Row& row : rows) {
      if (!all && static_cast<int64_t>(requests_.size()) >= dataset_.num_prompts) break;
      add(row);
    }
    if (!all) add_more();
    return std::move(requests_);
  }

 private:
  using Kind = FileDataset::Kind;

  /// SpecBench is shuffled with seed 0 whatever --seed says, as in vLLM.
  [[nodiscard]] uint64_t seed() const { return dataset_.kind == Kind::spec_bench ? 0 : dataset_.seed; }

  [[nodiscard]] std::vector<Row> wanted_rows() const {
    std::vector<Row> rows = read_rows(dataset_.path);
    std::erase_if(rows, [&](const Row& row) {
      if (dataset_.kind == Kind::sharegpt) {
        return !row.value.contains("conversations") || row.value["conversations"].size() < 2;
      }
      return dataset_.kind == Kind::spec_bench && !dataset_.category.empty() &&
             row.value.value("category", "") != dataset_.category;
    });
    return rows;
  }

  void add(const Row& row) {
    std::optional<SampleRequest> request =
        dataset_.kind == Kind::sharegpt ? sharegpt(row) : std::optional(custom(row));
    if (!request) return;
    request->request_id = cat(dataset_.request_id_prefix, requests_.size());
    requests_.push_back(*std::move(request));
  }

  [[nodiscard]] SampleRequest custom(const Row& row) const {
    SampleRequest request;
    if (row.value.contains("messages")) {
      request = chat(row);
    } else {
      request.prompt = prompt_of(row);
      if (!dataset_.skip_chat_template && tokenizer_ != nullptr) {
        request.prompt = tokenizer_->render(
            OrderedJson::array({OrderedJson{{"role", "user"}, {"content", request.prompt}}}),
            dataset_.chat_template_kwargs);
      }
    }
    if (tokenizer_ == nullptr) {
      request.prompt_len = request.output_len = 1;
      return request;
    }
    request.prompt_len = tokenizer_->count(request.prompt, true);
    request.output_len = dataset_.output_len == -1 ? output_tokens(row) : dataset_.output_len;
    return request;
  }

  /// A whole conversation: as it is to a chat endpoint, rendered to others.
  [[nodiscard]] SampleRequest chat(const Row& row) const {
    if (tokenizer_ == nullptr) {
      fail(ErrorKind::bad_input, row.place,
           ": rows with messages need a tokenizer: drop --skip-tokenizer-init");
    }
    SampleRequest request;
    try {
      request.prompt = tokenizer_->render(row.value["messages"], dataset_.chat_template_kwargs);
    } catch (const RequestError& error) {
      fail(ErrorKind::bad_input, row.place, ": ", error.what());
    }
    if (dataset_.chat) request.messages = row.value["messages"];
    return request;
  }

  [[nodiscard]] const std::string& prompt_of(const Row& row) const {
    if (dataset_.kind == Kind::custom) return text_field(row.value, "prompt", row.place);
    const auto turns = row.value.find("turns");
    if (turns == row.value.end() || !turns->is_array() || turns->empty() || !(*turns)[0].is_string()) {
      fail(ErrorKind::bad_input, row.place, ": JSONL file must contain a 'turns' column.");
    }
    return (*turns)[0].get_ref<const std::string&>();
  }

  /// The first question with the length of the first answer; too short and too long ones are left out.
  [[nodiscard]] std::optional<SampleRequest> sharegpt(const Row& row) const {
    constexpr int64_t kMin = 4;
    constexpr int64_t kPromptMax = 1024;
    constexpr int64_t kTotalMax = 2048;
    const OrderedJson& turns = row.value["conversations"];
    SampleRequest request;
    request.prompt = text_field(turns[0], "value", row.place);
    request.prompt_len = tokenizer_->count(request.prompt, true);
    const bool given = dataset_.output_len != -1;
    request.output_len =
        given ? dataset_.output_len : tokenizer_->count(text_field(turns[1], "value", row.place), true);
    if (request.prompt_len < kMin || (!given && request.output_len < kMin)) return std::nullopt;
    if (request.prompt_len > kPromptMax || request.prompt_len + request.output_len > kTotalMax) {
      return std::nullopt;
    }
    return request;
  }

  /// Rows are taken again at random until there are enough.
  void add_more() {
    if (!dataset_.oversample || requests_.empty()) return;
    PythonRandom random(seed());
    const auto wanted = static_cast<size_t>(dataset_.num_prompts);
    const size_t there = requests_.size();
    while (requests_.size() < wanted) {
      SampleRequest again = requests_[random.below(there)];
      again.request_id = cat(dataset_.request_id_prefix, requests_.size());
      requests_.push_back(std::move(again));
    }
  }

  const FileDataset& dataset_;
  const PromptTokenizer* tokenizer_;
  std::vector<SampleRequest> requests_;
};

}  // namespace

std::vector<SampleRequest> sample_file(const FileDataset& dataset, const PromptTokenizer* tokenizer) {
  if (dataset.path.empty())
    fail(ErrorKind::bad_input, "dataset_path must be provided for loading data: give --dataset-path");
  if (tokenizer == nullptr && dataset.kind != FileDataset::Kind::custom) {
    fail(ErrorKind::bad_input, "this dataset needs a tokenizer: drop --skip-tokenizer-init");
  }
  std::vector<SampleRequest> requests = FileSampler(dataset, tokenizer).sample();
  if (requests.empty())
    fail(ErrorKind::bad_input, dataset.path.string(), ": no row within the length limits");
  return requests;
}

}  // namespace glint::bench
