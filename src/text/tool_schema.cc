#include "text/tool_schema.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "text/python_text.h"

namespace glint {

namespace {

JsonTypes named_type(std::string_view name) {
  struct Alias {
    std::string_view name;
    JsonType type;
  };
  // Names that tool authors take from programming languages and data bases beside JSON Schema's own seven.
  static constexpr std::array kAliases = {
      Alias{"null", kTypeNull},      Alias{"integer", kTypeInteger},  Alias{"int", kTypeInteger},
      Alias{"int32", kTypeInteger},  Alias{"int64", kTypeInteger},    Alias{"uint", kTypeInteger},
      Alias{"uint32", kTypeInteger}, Alias{"uint64", kTypeInteger},   Alias{"long", kTypeInteger},
      Alias{"short", kTypeInteger},  Alias{"unsigned", kTypeInteger}, Alias{"number", kTypeNumber},
      Alias{"float", kTypeNumber},   Alias{"float32", kTypeNumber},   Alias{"float64", kTypeNumber},
      Alias{"double", kTypeNumber},  Alias{"boolean", kTypeBoolean},  Alias{"bool", kTypeBoolean},
      Alias{"object", kTypeObject},  Alias{"dict", kTypeObject},      Alias{"array", kTypeArray},
      Alias{"arr", kTypeArray},      Alias{"list", kTypeArray},       Alias{"sequence", kTypeArray},
      Alias{"string", kTypeString},  Alias{"str", kTypeString},       Alias{"text", kTypeString},
      Alias{"varchar", kTypeString}, Alias{"char", kTypeString},      Alias{"enum", kTypeString}};
  std::string lower(python_strip(name));
  for (char& byte : lower) {
    if (byte >= 'A' && byte <= 'Z') byte = static_cast<char>(byte - 'A' + 'a');
  }
  for (const Alias& alias : kAliases) {
    if (alias.name == lower) return alias.type;
  }
  return kTypeOther;
}

JsonTypes value_type(const OrderedJson& value) {
  using Type = OrderedJson::value_t;
  switch (value.type()) {
    case Type::null:
      return kTypeNull;
    case Type::boolean:
      return kTypeBoolean;
    case Type::number_integer:
    case Type::number_unsigned:
    case Type::binary:
      return kTypeInteger;  // binary: an integer beyond 64 bits, see python_json.h
    case Type::number_float:
      return kTypeNumber;
    case Type::string:
      return kTypeString;
    case Type::array:
      return kTypeArray;
    case Type::object:
      return kTypeObject;
    case Type::discarded:
      break;
  }
  return 0;
}

/// The schemas that some properties lead to, within one parameters object. What a schema allows is the union
/// of what all schemas allow that can be reached from it through branches and references; cycles are fine,
/// and the cost is linear.
class TypeGraph {
 public:
  explicit TypeGraph(const OrderedJson& root) : root_(root) {}

  /// Adds a schema. Its types are known after solve().
  size_t add(const OrderedJson& schema) {
    const auto [entry, is_new] = places_.try_emplace(&schema, nodes_.size());
    if (is_new) nodes_.push_back({&schema, 0, {}});
    return entry->second;
  }

  void solve() {
    // add() appends, so this visits what it finds as well.
    for (size_t at = 0; at < nodes_.size(); ++at) expand(at);
    std::vector<size_t> changed(nodes_.size());
    std::iota(changed.begin(), changed.end(), size_t{0});
    while (!changed.empty()) {
      const Node& node = nodes_[changed.back()];
      changed.pop_back();
      for (const size_t user : node.users) {
        const auto types = static_cast<JsonTypes>(nodes_[user].types | node.types);
        if (std::exchange(nodes_[user].types, types) != types) changed.push_back(user);
      }
    }
  }

  /// Never 0: a schema that says nothing counts as string.
  [[nodiscard]] JsonTypes types(size_t at) const {
    return nodes_[at].types == 0 ? JsonTypes{kTypeString} : nodes_[at].types;
  }

 private:
  struct Node {
    const OrderedJson* schema;
    JsonTypes types;
    std::vector<size_t> users;  // nodes whose types include this one's
  };

  void lead(size_t from, const OrderedJson& to) {
    const size_t at = add(to);
    nodes_[at].users.push_back(from);
  }

  /// Finds the node's own types and what it leads to.
  void expand(size_t at) {
    const OrderedJson& schema = *nodes_[at].schema;
    JsonTypes types = direct_types(schema);
    bool leads = false;
    for (const char* field : {"anyOf", "oneOf", "allOf"}) {
      const auto* branches = member(schema, field);
      if (branches == nullptr || !branches->is_array()) continue;
      for (const auto& branch : *branches) {
        lead(at, branch);
        leads = true;
      }
    }
    if (const auto* reference = member(schema, "$ref"); reference != nullptr && reference->is_string()) {
      if (const auto* target = resolve(reference->get_ref<const std::string&>())) {
        lead(at, *target);
        leads = true;
      }
    }
    if (types == 0 && !leads) types = kTypeString;
    nodes_[at].types = types;
  }

  JsonTypes direct_types(const OrderedJson& schema) {
    JsonTypes out = 0;
    if (const auto* type = member(schema, "type"); type != nullptr && type->is_string()) {
      out |= named_type(type->get_ref<const std::string&>());
    } else if (type != nullptr && type->is_array()) {
      for (const auto& name : *type) {
        if (name.is_string()) out |= named_type(name.get_ref<const std::string&>());
      }
    }
    if (const auto* values = member(schema, "enum"); values != nullptr && values->is_array()) {
      for (const auto& value : *values) out |= value_type(value);
    }
    if (const auto* value = member(schema, "const"); value != nullptr && out == 0) out = value_type(*value);
    return out;
  }

  /// A JSON pointer into the root; null if it leads nowhere.
  const OrderedJson* resolve(std::string_view reference) {
    if (!reference.starts_with('#')) return nullptr;
    reference.remove_prefix(1);
    const OrderedJson* at = &root_;
    while (at != nullptr && !reference.empty()) {
      if (reference.front() != '/') return nullptr;
      reference.remove_prefix(1);
      const size_t end = std::min(reference.find('/'), reference.size());
      at = member(*at, unescape(reference.substr(0, end)));
      reference.remove_prefix(end);
    }
    return at;
  }

  static std::string unescape(std::string_view part) {
    std::string out;
    for (size_t i = 0; i < part.size(); ++i) {
      const bool escape = part[i] == '~' && i + 1 < part.size() && (part[i + 1] == '0' || part[i + 1] == '1');
      out += !escape ? part[i] : part[++i] == '0' ? '~' : '/';
    }
    return out;
  }

  /// Indexed for large objects, so that many references into one do not cost their product.
  const OrderedJson* member(const OrderedJson& object, std::string_view name) {
    if (!object.is_object()) return nullptr;
    const auto& members = object.get_ref<const OrderedJson::object_t&>();
    if (members.size() > kIndexFrom) {
      auto& index = indexes_[&object];
      if (index.empty()) {
        for (const auto& [key, value] : members) index.emplace(key, &value);
      }
      const auto found = index.find(name);
      return found == index.end() ? nullptr : found->second;
    }
    for (const auto& [key, value] : members) {
      if (key == name) return &value;
    }
    return nullptr;
  }

  static constexpr size_t kIndexFrom = 16;
  const OrderedJson& root_;
  std::vector<Node> nodes_;
  std::unordered_map<const OrderedJson*, size_t> places_;
  std::unordered_map<const OrderedJson*, std::unordered_map<std::string_view, const OrderedJson*>> indexes_;
};

}  // namespace

JsonTypes schema_types(const OrderedJson& schema, const OrderedJson& root) {
  TypeGraph graph(root);
  const size_t at = graph.add(schema);
  graph.solve();
  return graph.types(at);
}

ToolSet::ToolSet(std::span<const ToolDefinition> tools) {
  for (const ToolDefinition& tool : tools) {
    const auto [entry, is_new] = tools_.try_emplace(tool.name);
    if (!is_new || !tool.parameters.is_object()) continue;
    const auto properties = tool.parameters.find("properties");
    if (properties == tool.parameters.end() || !properties->is_object()) continue;
    TypeGraph graph(tool.parameters);
    std::vector<std::pair<const std::string*, size_t>> places;
    for (const auto& [key, schema] : properties->get_ref<const OrderedJson::object_t&>()) {
      places.emplace_back(&key, graph.add(schema));
    }
    graph.solve();
    for (const auto& [key, at] : places) entry->second.emplace(*key, graph.types(at));
  }
}

bool ToolSet::contains(std::string_view name) const {
  return tools_.contains(std::string(name));
}

JsonTypes ToolSet::types_of(std::string_view tool, std::string_view key) const {
  const auto properties = tools_.find(std::string(tool));
  if (properties == tools_.end()) return kTypeString;
  const auto types = properties->second.find(std::string(key));
  return types == properties->second.end() ? JsonTypes{kTypeString} : types->second;
}

}  // namespace glint
