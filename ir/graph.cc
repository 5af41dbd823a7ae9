#include "ir/graph.h"

#include <algorithm>
#include <array>
#include <bit>
#include <mutex>
#include <set>
#include <string>

#include "base/result.h"
#include "base/strings.h"

namespace stowage {

namespace {
constexpr std::array<std::string_view, 9> kRoleNames = {
    "param",    "input",      "saved",    "state", "cache",
    "constant", "activation", "gradient", "output"};
}  // namespace

SourceLoc KeptSourceLoc(std::string_view file, int line) {
  if (line < 1) return {};
  static std::mutex mutex;
  static auto* const files = new std::set<std::string, std::less<>>();
  const std::lock_guard<std::mutex> lock(mutex);
  auto kept = files->find(file);
  if (kept == files->end()) kept = files->emplace(file).first;
  return {kept->c_str(), line};
}

std::string_view RoleName(Role role) {
  return kRoleNames[static_cast<size_t>(role)];
}

std::optional<Role> ParseRole(std::string_view name) {
  for (size_t i = 0; i < kRoleNames.size(); ++i) {
    if (kRoleNames[i] == name) return static_cast<Role>(i);
  }
  return std::nullopt;
}

std::string_view PhaseName(Phase phase) {
  static constexpr std::array<std::string_view, 3> kNames = {
      "forward", "backward", "update"};
  return kNames[static_cast<size_t>(phase)];
}

Graph::Graph() : parts_(std::make_shared<Parts>()) {}

Graph::Parts& Graph::Own() {
  if (parts_.use_count() > 1) parts_ = std::make_shared<Parts>(*parts_);
  return *parts_;
}

std::optional<ValueId> Graph::Find(std::string_view name) const {
  const auto found = parts_->by_name.find(name);
  if (found == parts_->by_name.end()) return std::nullopt;
  return found->second;
}

std::vector<ValueId> Graph::Leaves(Role role) const {
  std::vector<ValueId> leaves;
  for (ValueId id = 0; id < num_values(); ++id) {
    if (value(id).is_leaf() && value(id).role == role) leaves.push_back(id);
  }
  return leaves;
}

std::string Graph::Describe(NodeId id) const {
  const Node& n = node(id);
  switch (n.phase) {
    case Phase::kForward:
      return Quoted(value(n.results.front()).name);
    case Phase::kBackward:
    case Phase::kUpdate:
      return StrCat(PhaseName(n.phase), " of ", Quoted(n.origin));
  }
  STOWAGE_CHECK(false);
}

namespace {

bool SameGraphs(const SubGraphs& a, const SubGraphs& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    return x == y || Equal(*x, *y);
  });
}

bool SameEntry(const Attrs::Entry& a, const Attrs::Entry& b) {
  if (a.first != b.first || a.second.index() != b.second.index()) return false;
  if (const auto* x = std::get_if<double>(&a.second)) {
    return std::bit_cast<uint64_t>(*x) ==
           std::bit_cast<uint64_t>(std::get<double>(b.second));
  }
  if (const auto* x = std::get_if<SubGraphs>(&a.second)) {
    return SameGraphs(*x, std::get<SubGraphs>(b.second));
  }
  return a.second == b.second;
}

}  // namespace

bool operator==(const Attrs& a, const Attrs& b) {
  return std::ranges::equal(a.entries(), b.entries(), SameEntry);
}

bool Equal(const Graph& a, const Graph& b) {
  const auto same_value = [](const ValueInfo& x, const ValueInfo& y) {
    return x.name == y.name && x.type == y.type && x.role == y.role &&
           x.producer == y.producer && x.result == y.result &&
           x.init == y.init && x.on_host == y.on_host;
  };
  const auto same_node = [](const Node& x, const Node& y) {
    return x.op == y.op && x.inputs == y.inputs && x.results == y.results &&
           x.attrs == y.attrs && x.phase == y.phase && x.origin == y.origin;
  };
  const auto same_output = [](const GraphOutput& x, const GraphOutput& y) {
    return x.name == y.name && x.value == y.value;
  };
  return a.name() == b.name() &&
         std::ranges::equal(a.values(), b.values(), same_value) &&
         std::ranges::equal(a.nodes(), b.nodes(), same_node) &&
         std::ranges::equal(a.outputs(), b.outputs(), same_output);
}

}  // namespace stowage
