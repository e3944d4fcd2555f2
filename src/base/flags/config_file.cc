#include "base/flags/config_file.h"

#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/yaml.h>

#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"

namespace glint {

namespace {

constexpr size_t kBytesMax = size_t{1} << 20;
constexpr int kDepthMax = 16;
constexpr int kValuesMax = 10'000;  // aliases let a short file name very many

class ConfigFile {
 public:
  ConfigFile(const FlagTable& table, const std::filesystem::path& path)
      : table_(table), name_(path.string()) {
    const std::string text = read_text(path);
    try {
      root_ = YAML::Load(text);
    } catch (const YAML::DeepRecursion& error) {
      fail(ErrorKind::bad_input, name_, ":", error.mark.line + 1, ": nested too deeply");
    } catch (const YAML::Exception& error) {
      fail(ErrorKind::bad_input, name_, ":", error.mark.line + 1, ": ", error.msg);
    }
  }

  std::vector<Assignment> read() {
    std::vector<Assignment> all;
    if (root_.IsNull()) return all;
    if (!root_.IsMap()) fail(ErrorKind::bad_input, at(root_), "expected one `flag: value` a line");
    std::map<std::string, int> lines;
    for (const auto& entry : root_) {
      Assignment said = read_entry(entry.first, entry.second);
      const std::string whole = said.path.empty() ? said.flag->name : cat(said.flag->name, ".", said.path);
      const auto [first, fresh] = lines.emplace(whole, entry.first.Mark().line + 1);
      if (!fresh)
        fail(ErrorKind::bad_input, said.source, ": --", whole, " stands in line ", first->second, " too");
      all.push_back(std::move(said));
    }
    return all;
  }

 private:
  [[nodiscard]] std::string at(const YAML::Node& node) const {
    return cat(name_, ":", node.Mark().line + 1, ": ");
  }

  Assignment read_entry(const YAML::Node& key, const YAML::Node& value) {
    if (!key.IsScalar()) fail(ErrorKind::bad_input, at(key), "expected a flag's name");
    const std::string& name = key.Scalar();
    if (table_.find(name.substr(0, name.find('.'))).flag == nullptr) {
      std::string near;
      for (const std::string& similar : table_.similar(name)) near += (near.empty() ? "" : ", ") + similar;
      fail(ErrorKind::bad_input, at(key), "unknown key ", name,
           near.empty() ? "" : cat(" (did you mean ", near, "?)"));
    }
    bool on = true;
    Assignment said = begin_assignment(table_, name, on);
    said.source = cat(at(key), name);
    if (said.flag->name == "config") {
      fail(ErrorKind::bad_input, said.source, ": a file cannot name another one: give --config alone");
    }
    if (said.flag->kind == FlagKind::toggle) {
      if (!value.IsScalar()) fail(ErrorKind::bad_input, said.source, ": expected true or false");
      said.texts = {read(value.Scalar(), said) == on ? "on" : "off"};
    } else if (said.flag->kind == FlagKind::list && value.IsSequence()) {
      for (const YAML::Node& item : value) {
        if (!item.IsScalar()) fail(ErrorKind::bad_input, at(item), name, ": expected a list of texts");
        said.texts.push_back(item.Scalar());
      }
    } else if (value.IsMap() && takes_no_map(*said.flag)) {
      fail(ErrorKind::bad_input, said.source, ": expected ",
           said.flag->kind == FlagKind::list ? "a list of texts" : "one value", ", found keys and values");
    } else if (value.IsSequence() && takes_any_text(*said.flag)) {
      fail(ErrorKind::bad_input, said.source, ": expected one value, found a list");
    } else if (value.IsScalar()) {
      said.texts = {value.Scalar()};
    } else if (value.IsDefined() && !value.IsNull()) {
      said.texts = {dump_json(json_of(value, 0))};
    }
    if (said.texts.empty()) fail(ErrorKind::bad_input, said.source, ": expected a value");
    return said;
  }

  /// Flags without effect take what the engine that they come from takes.
  static bool takes_no_map(const Flag& flag) {
    return flag.kind != FlagKind::object && flag.no_effect_reason.empty() && flag.refused_reason.empty();
  }

  /// A name, say: the text of a list would be taken for one. Other readers tell what is wrong with it, or
  /// take lists.
  static bool takes_any_text(const Flag& flag) {
    if (flag.kind != FlagKind::value || !takes_no_map(flag)) return false;
    try {
      static_cast<void>(flag.read("any text"));
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  static bool read(const std::string& text, const Assignment& said) {
    try {
      return read_switch(text);
    } catch (const Error& error) {
      fail(ErrorKind::bad_input, said.source, ": ", error.what());
    }
  }

  /// The file as text. What is wrong with it is the command line's fault, whatever the system calls it.
  static std::string read_text(const std::filesystem::path& path) {
    std::string text;
    try {
      text = read_file(path, kBytesMax);
    } catch (const Error& error) {
      throw Error(error.kind() == ErrorKind::io ? ErrorKind::bad_input : error.kind(),
                  cat("argument --config: ", error.what()));
    }
    if (text.find('\0') != std::string::npos || !is_valid_utf8(text)) {
      fail(ErrorKind::bad_input, "argument --config: ", path.string(), ": not a text in UTF-8");
    }
    return text;
  }

  [[nodiscard]] OrderedJson json_of(const YAML::Node& node, int depth) {
    if (++values_ > kValuesMax) fail(ErrorKind::bad_input, at(node), "more than ", kValuesMax, " values");
    if (depth > kDepthMax) fail(ErrorKind::bad_input, at(node), "more than ", kDepthMax, " levels deep");
    if (node.IsSequence()) {
      OrderedJson list = OrderedJson::array();
      for (const YAML::Node& item : node) list.push_back(json_of(item, depth + 1));
      return list;
    }
    if (node.IsMap()) {
      OrderedJson object = OrderedJson::object();
      for (const auto& entry : node) object[entry.first.as<std::string>()] = json_of(entry.second, depth + 1);
      return object;
    }
    if (node.IsNull()) return nullptr;
    return scalar(node);
  }

  static OrderedJson scalar(const YAML::Node& node) {
    const std::string& text = node.Scalar();
    if (node.Tag() == "!") return text;  // quoted
    bool truth = false;
    if (YAML::convert<bool>::decode(node, truth)) return truth;
    try {
      return parse_ordered_json(text, "value");
    } catch (const Error&) {
      return text;
    }
  }

  const FlagTable& table_;
  const std::string name_;
  YAML::Node root_;
  int values_ = 0;  // read so far
};

}  // namespace

std::vector<Assignment> read_config_file(const FlagTable& table, const std::filesystem::path& path) {
  try {
    return ConfigFile(table, path).read();
  } catch (const YAML::Exception& error) {
    fail(ErrorKind::bad_input, path.string(), ":", error.mark.line + 1, ": ", error.msg);
  }
}

}  // namespace glint
