#include "tests/planner/planned_bodies.h"

#include "base/strings.h"
#include "planner/stream.h"

namespace stowage {
namespace {

// `name`, and of what lies outside of a body, `name^` and whose place it is in.
std::string Place(const StreamValue& value) {
  return value.place.outside.empty()
             ? value.name
             : StrCat(value.name, "^", value.place.outside);
}

std::string Places(const std::vector<StreamValue>& values) {
  std::string out;
  for (const StreamValue& value : values) {
    out += StrCat(out.empty() ? "" : ",", Place(value));
  }
  return out;
}

}  // namespace

Value Input(GraphBuilder& g, const char* name) {
  return g.Input(name, DType::kF32, {4});
}
Value Flag(GraphBuilder& g, const char* name) {
  return g.Input(name, DType::kBool, {});
}

Lines StreamOf(const Graph& graph) {
  Lines lines;
  for (const StreamEvent& event : MakeStream(graph, PlanOf(graph))) {
    switch (event.kind) {
      case StreamEventKind::kAllocate:
        lines.push_back(StrCat("+", event.name));
        break;
      case StreamEventKind::kKill:
        lines.push_back(StrCat("-", event.name));
        break;
      case StreamEventKind::kLaunch:
        lines.push_back(StrCat(Places(event.results), " = ", OpName(event.op),
                               " ", Places(event.operands)));
        break;
      case StreamEventKind::kEnter: {
        std::string line = StrCat("{ ", event.body);
        for (const StreamHanded& handed : event.handed) {
          line += StrCat(", ", handed.leaf, " to ", handed.output,
                         handed.in_one_place ? " in one place" : "",
                         handed.second.bytes > 0 ? " in two places" : "");
        }
        lines.push_back(line);
        break;
      }
      case StreamEventKind::kLeave:
        lines.push_back("}");
        break;
    }
  }
  return lines;
}

std::string StreamText(const Graph& graph) {
  std::string text;
  for (const std::string& line : StreamOf(graph)) text += line + "\n";
  return text;
}

std::string Text(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace stowage
