#include "schema/recipe/substitute.h"

#include <cstdlib>

#include "schema/base/suggest.h"

namespace runner::schema {
namespace {

constexpr std::string_view kForms = "write ${vars.NAME} or ${env:NAME:default}; $${ stands for ${";
constexpr size_t kMaxReferences = 64;  // longest chain of variables that refer to each other

class Substitution {
 public:
  // `vars`: may be null.
  Substitution(YamlNode* vars, bool variables_known, Report& report)
      : vars_(vars), variables_known_(variables_known), report_(report) {}

  // `name`: dotted path of a variable; empty for other values.
  void expand(YamlNode& node, const std::string& name) {
    if (node.expanded) return;
    if (!name.empty()) open_.push_back({&node, name});
    for (size_t i = 0; i < node.items.size(); ++i) {
      expand(node.items[i], name.empty() ? "" : fmt::format("{}[{}]", name, i));
    }
    for (YamlNode::Member& member : node.members) expand(member.value, name.empty() ? "" : name + "." + member.key);
    if (node.kind == YamlNode::Kind::kScalar) expand_scalar(node);
    node.expanded = true;
    if (!name.empty()) open_.pop_back();
  }

 private:
  struct Open {
    const YamlNode* node;
    std::string name;
  };

  void fault(ErrorId id, YamlNode& node, const std::string& message, std::string_view hint = "") {
    report_.add(id, node.place, "", message, hint);
    node.kind = YamlNode::Kind::kInvalid;
  }

  void expand_scalar(YamlNode& node) {
    const std::string text = std::move(node.text);
    node.text.clear();
    for (size_t at = 0; at < text.size() && node.kind == YamlNode::Kind::kScalar;) {
      const size_t dollar = text.find("${", at);
      node.text += text.substr(at, dollar - at);
      if (dollar == std::string::npos) break;
      at = dollar + 2;
      if (dollar > 0 && text[dollar - 1] == '$') {
        node.text += '{';  // $${: the first dollar has been copied
        continue;
      }
      const size_t close = text.find('}', at);
      if (close == std::string::npos) {
        fault(ErrorId::kBadSubstitution, node, "a ${ is never closed", kForms);
        return;
      }
      const std::string body = text.substr(at, close - at);
      at = close + 1;
      replace(node, body, dollar == 0 && at == text.size());
    }
    charge(node, 0, node.text.size());
  }

  void replace(YamlNode& node, const std::string& body, bool whole) {
    YamlNode value;
    if (body.starts_with("env:")) {
      value = environment(node, body.substr(4), whole);
    } else if (body.starts_with("vars.") && variables_known_) {
      value = variable(node, body);
    } else if (body.starts_with("vars.")) {
      fault(ErrorId::kBadSubstitution, node,
            fmt::format("${{{}}} is not available in include, which is read before vars", body));
    } else {
      fault(ErrorId::kBadSubstitution, node,
            fmt::format("${{{}}} is neither a variable nor an environment variable", body), kForms);
    }
    if (node.kind == YamlNode::Kind::kInvalid) return;
    if (whole) {
      charge(node, count_nodes(value), 0);
      if (node.kind == YamlNode::Kind::kInvalid) return;
      move_to(value, node.place);
      node = std::move(value);
    } else if (value.kind == YamlNode::Kind::kScalar) {
      node.text += value.text;
      node.from_env |= value.from_env;
      node.quoted = false;
      node.loose = true;
    } else if (value.kind == YamlNode::Kind::kInvalid) {
      node.kind = YamlNode::Kind::kInvalid;
    } else {
      fault(ErrorId::kBadSubstitution, node,
            fmt::format("${{{}}} is not a text or number, so it must be the whole value", body));
    }
  }

  // In messages, the place of a substituted value is where it is used.
  static void move_to(YamlNode& node, const Place& place) {
    node.place = place;
    for (YamlNode& item : node.items) move_to(item, place);
    for (YamlNode::Member& member : node.members) {
      member.place = place;
      move_to(member.value, place);
    }
  }

  // `whole`: the variable is the whole value.
  YamlNode environment(YamlNode& user, const std::string& body, bool whole) {
    const size_t colon = body.find(':');
    const std::string name = body.substr(0, colon);
    YamlNode value;
    value.kind = YamlNode::Kind::kScalar;
    if (const char* text = name.empty() ? nullptr : std::getenv(name.c_str())) {
      value.text = text;
      value.from_env = value.loose = true;
      if (!is_utf8(value.text))
        fault(ErrorId::kNotUtf8, user, fmt::format("the environment variable {} is not UTF-8", name));
      if (whole && value.text.empty())
        fault(ErrorId::kUnsetEnvironment, user, fmt::format("the environment variable {} is empty", name),
              "set it to a value");
    } else if (colon != std::string::npos && !name.empty()) {
      value.text = body.substr(colon + 1);
    } else if (name.empty()) {
      fault(ErrorId::kBadSubstitution, user, "${env:} has no variable name", kForms);
    } else {
      fault(ErrorId::kUnsetEnvironment, user, fmt::format("the environment variable {} is not set", name),
            fmt::format("set it, or give a default: ${{env:{}:VALUE}}", name));
    }
    return value;
  }

  YamlNode variable(YamlNode& user, const std::string& path) {
    YamlNode* node = vars_;
    size_t start = 5;  // after "vars."
    while (node != nullptr && start <= path.size()) {
      const size_t dot = std::min(path.find('.', start), path.size());
      YamlNode::Member* member = node->find(path.substr(start, dot - start));
      if (member == nullptr) {
        unknown_variable(user, path, *node, start, dot);
        return {};
      }
      node = &member->value;
      start = dot + 1;
    }
    if (node == nullptr) {
      fault(ErrorId::kUnknownVariable, user, fmt::format("unknown variable {}", path), "define it under vars:");
      return {};
    }
    for (const Open& open : open_) {
      if (open.node != node) continue;
      fault(ErrorId::kCyclicVariable, user, fmt::format("{} refers to itself: {}", path, chain(open, path)));
      return {};
    }
    if (open_.size() >= kMaxReferences) {
      fault(ErrorId::kTooDeep, user,
            fmt::format("variables refer to each other more than {} levels deep", kMaxReferences));
      return {};
    }
    expand(*node, path);
    return *node;
  }

  void unknown_variable(YamlNode& user, const std::string& path, const YamlNode& scope, size_t start, size_t end) {
    std::vector<std::string> names;
    for (const YamlNode::Member& member : scope.members) names.push_back(path.substr(0, start) + member.key);
    fault(ErrorId::kUnknownVariable, user, fmt::format("unknown variable {}", path.substr(0, end)),
          did_you_mean(nearest(path.substr(0, end), names)));
  }

  // "vars.a -> vars.b -> vars.a"
  std::string chain(const Open& first, const std::string& last) const {
    std::string text;
    for (const Open* open = &first; open != open_.data() + open_.size(); ++open) {
      if (open->node->kind == YamlNode::Kind::kScalar) text += open->name + " -> ";
    }
    return text + last;
  }

  // Limits the growth by repeated references.
  void charge(YamlNode& node, int values, size_t bytes) {
    values_ += values;
    bytes_ += bytes;
    if (values_ <= kMaxValues && bytes_ <= kMaxTextBytes) return;
    fault(ErrorId::kTooManyValues, node, fmt::format("variables expand to more than {} values or 1 MiB", kMaxValues));
    values_ = 0, bytes_ = 0;
  }

  YamlNode* vars_;
  bool variables_known_;
  Report& report_;
  std::vector<Open> open_;  // variables being expanded
  int values_ = 0;
  size_t bytes_ = 0;
};

}  // namespace

void substitute(YamlNode& recipe, Report& report) {
  YamlNode::Member* vars = recipe.find("vars");
  Substitution substitution(vars != nullptr ? &vars->value : nullptr, true, report);
  if (vars != nullptr) substitution.expand(vars->value, "vars");
  substitution.expand(recipe, "");
}

void substitute_environment(YamlNode& value, Report& report) {
  Substitution(nullptr, false, report).expand(value, "");
}

}  // namespace runner::schema
