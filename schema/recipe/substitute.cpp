#include "schema/recipe/substitute.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "schema/base/secrets.h"
#include "schema/base/suggest.h"
#include "schema/base/utf8.h"

namespace runner::schema {
namespace {

constexpr std::string_view kForms = "write ${vars.NAME} or ${env:NAME:default}; $${ stands for ${";
constexpr size_t kMaxReferences = 64;  // longest chain of variables that refer to each other

class Substitution {
 public:
  // `vars`: may be null.
  Substitution(YamlNode* vars, bool variables_known, const std::vector<std::string>& secret,
               std::vector<EnvironmentRead>& reads, Report& report)
      : vars_(vars), variables_known_(variables_known), secret_(secret), reads_(reads), report_(report) {}

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
    Recorded recorded;
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
      replace(node, recorded, body, dollar == 0 && at == text.size());
    }
    if (!recorded.text.empty()) node.recorded = recorded.with_rest(node);
    charge(node, 0, node.text.size());
  }

  // The recorded form of a text that is being composed. It differs from the text from the first secret on.
  struct Recorded {
    std::string text;  // up to and including the last secret; empty if there is none yet
    size_t end = 0;    // of these parts in the node's text

    std::string with_rest(const YamlNode& node) const {
      return text + escape_references(node.text.substr(end), References::kSecret);
    }
  };

  static void append(YamlNode& node, Recorded& recorded, const YamlNode& value) {
    if (!value.recorded.empty()) recorded.text = recorded.with_rest(node) + value.recorded;
    node.text += value.text;
    if (!value.recorded.empty()) recorded.end = node.text.size();
    node.from_env |= value.from_env;
    node.quoted = false;
    node.loose = true;
  }

  void replace(YamlNode& node, Recorded& recorded, const std::string& body, bool whole) {
    constexpr std::string_view kReference = kSecretStart.substr(2);
    YamlNode value;
    if (body.starts_with("env:")) {
      value = environment(node, body.substr(4), whole);
    } else if (body.starts_with(kReference) && report_.source(node.place.source).is_recorded()) {
      value = secret(node, body.substr(kReference.size()));
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
      append(node, recorded, value);
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
    const bool is_secret = is_secret_name(name) || std::ranges::find(secret_, name) != secret_.end();
    if (const char* text = name.empty() ? nullptr : std::getenv(name.c_str())) {
      value.text = text;
      value.from_env = value.loose = true;
      if (is_secret) value.recorded = remember_secret(name, value.text);
      add_read({.name = name, .is_secret = is_secret});
      if (!is_utf8(value.text))
        fault(ErrorId::kNotUtf8, user, fmt::format("the environment variable {} is not UTF-8", name));
      if (whole && value.text.empty())
        fault(ErrorId::kUnsetEnvironment, user, fmt::format("the environment variable {} is empty", name),
              "set it to a value");
    } else if (colon != std::string::npos && !name.empty()) {
      value.text = body.substr(colon + 1);
      add_read({.name = name, .is_secret = is_secret, .is_set = false});
    } else if (name.empty()) {
      fault(ErrorId::kBadSubstitution, user, "${env:} has no variable name", kForms);
    } else {
      fault(ErrorId::kUnsetEnvironment, user, fmt::format("the environment variable {} is not set", name),
            fmt::format("set it, or give a default: ${{env:{}:VALUE}}", name));
    }
    return value;
  }

  // `body`: NAME:DIGEST, from the record of a run.
  YamlNode secret(YamlNode& user, const std::string& body) {
    const size_t colon = std::min(body.rfind(':'), body.size());
    const std::string name = body.substr(0, colon);
    YamlNode value;
    value.kind = YamlNode::Kind::kScalar;
    value.from_env = value.loose = true;
    const char* const text = std::getenv(name.c_str());
    if (std::ranges::find(reported_, name) != reported_.end()) {
      user.kind = YamlNode::Kind::kInvalid;
      return value;
    }
    if (text == nullptr) {
      reported_.push_back(name);
      fault(ErrorId::kUnsetEnvironment, user,
            fmt::format("the environment variable {} is not set; it is secret, so the run has recorded only its digest",
                        name),
            "set it to the value that it had when the run started");
      return value;
    }
    value.text = text;
    value.recorded = remember_secret(name, value.text);
    if (value.recorded != fmt::format("{}{}}}", kSecretStart, body)) {
      reported_.push_back(name);
      fault(ErrorId::kChangedSecret, user,
            fmt::format("the secret environment variable {} has another value than when the run started", name),
            fmt::format("set it to that value, or start a new run with `runner exec`; its digest was {}, and is {}",
                        body.substr(std::min(colon + 1, body.size())), secret_digest(name, value.text)));
    }
    add_read({.name = name, .is_secret = true});
    return value;
  }

  void add_read(EnvironmentRead read) {
    if (std::ranges::find(reads_, read) == reads_.end()) reads_.push_back(std::move(read));
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
  const std::vector<std::string>& secret_;
  std::vector<EnvironmentRead>& reads_;
  Report& report_;
  std::vector<Open> open_;             // variables being expanded
  std::vector<std::string> reported_;  // secret variables with a fault, which is reported once
  int values_ = 0;
  size_t bytes_ = 0;
};

}  // namespace

std::string escape_references(std::string text, References which) {
  for (size_t at = text.find("${"); at != std::string::npos; at = text.find("${", at + 2)) {
    const bool is_secret = text.compare(at, kSecretStart.size(), kSecretStart) == 0;
    if (which == References::kAll || is_secret == (which == References::kSecret)) text.insert(at++, 1, '$');
  }
  return text;
}

std::vector<std::string> secret_names(const YamlNode& recipe) {
  std::vector<std::string> names;
  const YamlNode::Member* const secret = recipe.find("secret");
  if (secret == nullptr) return names;
  for (const YamlNode& item : secret->value.items) {
    names.push_back(item.text);
    if (const char* const value = std::getenv(item.text.c_str())) remember_secret(item.text, value);
  }
  return names;
}

void substitute(YamlNode& recipe, std::vector<EnvironmentRead>& reads, Report& report) {
  YamlNode::Member* vars = recipe.find("vars");
  const std::vector<std::string> secret = secret_names(recipe);
  Substitution substitution(vars != nullptr ? &vars->value : nullptr, true, secret, reads, report);
  if (vars != nullptr) substitution.expand(vars->value, "vars");
  substitution.expand(recipe, "");
}

void substitute_environment(YamlNode& value, const std::vector<std::string>& secret,
                            std::vector<EnvironmentRead>& reads, Report& report) {
  Substitution(nullptr, false, secret, reads, report).expand(value, "");
}

}  // namespace runner::schema
