#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/result.h"
#include "compile/file_parts.h"
#include "ir/bodies.h"
#include "planner/stream.h"

namespace stowage::compile {
namespace {

// The last part of a path.
std::string_view FileName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

class StepWriter {
 public:
  StepWriter(const Memory& memory, KernelSet* kernels)
      : memory_(memory), kernels_(*kernels) {}

  StepText Write(const Graph& graph, const std::vector<StreamEvent>& stream,
                 const Constants& constants) {
    Enter(graph, "");
    frames_.back().outside = constants.names();
    for (const StreamEvent& event : stream) {
      switch (event.kind) {
        case StreamEventKind::kLaunch:
          Launch(event);
          break;
        case StreamEventKind::kEnter:
          EnterBody(event);
          break;
        case StreamEventKind::kLeave:
          LeaveBody();
          break;
        case StreamEventKind::kAllocate:
        case StreamEventKind::kKill:
          break;
      }
    }
    result_.body = std::move(frames_.back().text);
    return std::move(result_);
  }

 private:
  // A pointer to memory outside a body, for one iteration.
  struct Pointer {
    std::string name;
    std::string address;
  };

  // The graph being written.
  struct Frame {
    const Graph* graph;
    Layouts layouts;
    std::string head;  // of the statement around it
    // By value: pointers of a body, constants of the whole graph.
    std::map<std::string, std::string, std::less<>> outside;
    std::vector<Pointer> pointers;
    std::string text;
    const StreamEvent* control = nullptr;  // the node whose bodies come
    size_t bodies = 0;                     // of it, that have come
  };

  void Enter(const Graph& graph, std::string head) {
    Frame& frame = frames_.emplace_back();
    frame.graph = &graph;
    frame.layouts = ComputeLayouts(graph);
    frame.head = std::move(head);
  }

  void Line(std::string_view line) {
    Frame& frame = frames_.back();
    frame.text.append(2 * depth_, ' ');
    frame.text += line;
    frame.text += '\n';
  }

  // The address of an operand in the innermost graph.
  std::string Address(const StreamPlace& place) const {
    const std::string base = !place.outside.empty()
                                 ? frames_.back().outside.at(place.outside)
                                 : memory_.NameOf(place.on_host, place.region);
    return place.address == 0 ? base : StrCat(base, " + ", place.address);
  }
  // The same for a pointer, which a body may have into the arena too.
  std::string PointerTo(const StreamPlace& place) const {
    const bool is_constant = frames_.size() == 1 && !place.outside.empty();
    return is_constant ? Typed("u8", Address(place)) : Address(place);
  }
  static std::string Typed(std::string_view type, const std::string& address) {
    return StrCat("AT(", type, ", ", address, ")");
  }

  void Comment(const Node& node, NodeId id) {
    const Graph& graph = *frames_.back().graph;
    std::string text = graph.Describe(id);
    if (!node.results.empty()) {
      const SourceLoc& source = graph.value(node.results.front()).source;
      if (source.is_known()) {
        text += StrCat(" (", FileName(source.file), ":", source.line, ")");
      }
    }
    Line(StrCat("/* ", InComment(text), " */"));
  }

  void Launch(const StreamEvent& event) {
    Frame& frame = frames_.back();
    const Node& node = frame.graph->node(event.node);
    Comment(node, event.node);
    if (event.op == OpKind::kLoop || event.op == OpKind::kCond) {
      frame.control =
          &*launches_.emplace_back(std::make_unique<StreamEvent>(event));
      frame.bodies = 0;
      return;
    }
    ++result_.launches;
    const KernelCall call = kernels_.Add(*frame.graph, node, frame.layouts);
    std::string arguments;
    for (const std::string& parameter : call.parameters) {
      arguments += arguments.empty() ? "" : ", ";
      if (parameter == kScratch) {
        arguments += Typed(CType(call.real), Address(event.scratch));
        continue;
      }
      const auto index = static_cast<size_t>(std::stoi(parameter.substr(1)));
      const bool is_operand = parameter.front() == 'x';
      const ValueId id = (is_operand ? node.inputs : node.results)[index];
      const StreamValue& value =
          (is_operand ? event.operands : event.results)[index];
      arguments +=
          Typed(CType(frame.graph->value(id).type.dtype), Address(value.place));
    }
    if (!call.can_fail) return Line(StrCat(call.name, "(", arguments, ");"));
    result_.can_fail = true;
    Line(StrCat("status = ", call.name, "(", arguments, ");"));
    Line("if (status != 0) return status;");
  }

  // --- Control flow ---

  void EnterBody(const StreamEvent& event) {
    const Frame& outer = frames_.back();
    const Node& node = outer.graph->node(event.node);
    const Graph& body = *BodiesOf(node)[outer.bodies];
    const StreamEvent& launch = *outer.control;
    event.op == OpKind::kLoop ? EnterLoop(event, launch, node)
                              : EnterBranch(launch, node, body);
    ++depth_;
  }

  void AddPointer(Frame* frame, ValueId id, const std::string& address) {
    const std::string name = StrCat("p", next_pointer_++);
    frame->outside[frame->graph->value(id).name] = name;
    frame->pointers.push_back({name, address});
  }

  void EnterLoop(const StreamEvent& event, const StreamEvent& launch,
                 const Node& node) {
    const LoopParts loop = PartsOfLoop(node);
    const Graph& graph = *frames_.back().graph;
    const int64_t n = loop.iterations;
    const std::string i = StrCat("loop", next_loop_++);
    const std::string slice =
        loop.reverse ? StrCat("(", n - 1, " - ", i, ")") : i;
    const auto outer_address = [&](const StreamPlace& place) {
      return PointerTo(place);
    };
    const auto sliced = [&](const std::string& address, ValueId id,
                            const Strides& strides) {
      const Bytes step = strides[0] * SizeOf(graph.value(id).type.dtype);
      return StrCat(address, " + ", slice, " * ", step);
    };
    // The addresses in the outer frame, before the inner one exists.
    std::vector<std::string> operands, results, seconds;
    for (size_t o = 0; o < node.inputs.size(); ++o) {
      operands.push_back(outer_address(launch.operands[o].place));
      if (!loop.is_sliced(o)) continue;
      const ValueId id = node.inputs[o];
      operands.back() =
          sliced(operands.back(), id,
                 frames_.back().layouts[static_cast<size_t>(id)].strides);
    }
    for (size_t r = 0; r < node.results.size(); ++r) {
      results.push_back(outer_address(launch.results[r].place));
      if (r < loop.handed_on()) continue;
      const ValueId id = node.results[r];
      results.back() = sliced(results.back(), id,
                              ContiguousStrides(graph.value(id).type.shape));
    }
    for (const StreamHanded& handed : event.handed) {
      seconds.push_back(
          handed.second.bytes == 0 ? "" : outer_address(handed.second));
    }
    // Where iteration `parity` turns before the last one writes.
    const auto left = [&](size_t h, const std::string& before_last) {
      if (seconds[h].empty()) return results[h];
      return StrCat("(", before_last, ") % 2 != 0 ? ", seconds[h], " : ",
                    results[h]);
    };
    for (size_t s = 0; s < loop.summed; ++s) {
      const size_t h = loop.carried + s;
      const bool in_second = !seconds[h].empty() && n % 2 != 0;
      const TensorType& type = graph.value(node.results[h]).type;
      ClearSum(type, in_second ? seconds[h] : results[h]);
    }
    Enter(loop.body,
          StrCat("for (dim_t ", i, " = 0; ", i, " < ", n, "; ++", i, ")"));
    Frame& frame = frames_.back();
    const std::vector<ValueId> leaves = LeavesOf(loop.body);
    for (size_t o = 0; o < operands.size(); ++o) {
      AddPointer(&frame, leaves[o],
                 o < loop.carried ? StrCat(i, " == 0 ? ", operands[o], " : (",
                                           left(o, StrCat(n, " - ", i)), ")")
                                  : operands[o]);
    }
    for (size_t s = 0; s < loop.summed; ++s) {
      const size_t h = loop.carried + s;
      AddPointer(&frame, leaves[loop.leaf_of(h)], left(h, StrCat(n, " - ", i)));
    }
    for (size_t r = 0; r < results.size(); ++r) {
      AddPointer(
          &frame, loop.body.outputs()[r].value,
          r < loop.handed_on() ? left(r, StrCat(n - 1, " - ", i)) : results[r]);
    }
  }

  // Sums begin with -0, which changes no number that is added to it.
  void ClearSum(const TensorType& type, const std::string& address) {
    const bool is_half =
        type.dtype == DType::kF16 || type.dtype == DType::kBF16;
    const std::string_view zero = is_half                     ? "0x8000U"
                                  : type.dtype == DType::kF32 ? "-0.0f"
                                  : type.dtype == DType::kF64 ? "-0.0"
                                                              : "0";
    Line(StrCat("for (dim_t i = 0; i < ", type.shape.num_elements(), "; ++i) ",
                Typed(CType(type.dtype), address), "[i] = ", zero, ";"));
  }

  void EnterBranch(const StreamEvent& launch, const Node& node,
                   const Graph& body) {
    Frame& outer = frames_.back();
    const size_t branch = outer.bodies;
    const std::string which = StrCat("which", depth_, "_", launch.node);
    if (branch == 0) {
      // Whatever the bodies write over it.
      const DType dtype = outer.graph->value(node.inputs[0]).type.dtype;
      Line(StrCat("const int64_t ", which, " = (int64_t)*",
                  Typed(CType(dtype), Address(launch.operands[0].place)), ";"));
      Line(StrCat("if (", which, " < 0 || ", which, " >= ",
                  BodiesOf(node).size(), ") return INDEX_OUT_OF_RANGE;"));
    }
    std::vector<std::string> operands, results;
    for (size_t o = 1; o < node.inputs.size(); ++o) {
      operands.push_back(PointerTo(launch.operands[o].place));
    }
    for (const StreamValue& result : launch.results) {
      results.push_back(Address(result.place));
    }
    Enter(body, StrCat("if (", which, " == ", branch, ")"));
    Frame& frame = frames_.back();
    const std::vector<ValueId> leaves = LeavesOf(body);
    for (size_t o = 0; o < operands.size(); ++o) {
      AddPointer(&frame, leaves[o], operands[o]);
    }
    for (size_t r = 0; r < results.size(); ++r) {
      AddPointer(&frame, body.outputs()[r].value, results[r]);
    }
  }

  void LeaveBody() {
    const Frame inner = std::move(frames_.back());
    frames_.pop_back();
    --depth_;
    ++frames_.back().bodies;
    Line(StrCat(inner.head, " {"));
    ++depth_;
    for (const Pointer& pointer : inner.pointers) {
      if (!Mentions(inner.text, pointer.name)) continue;
      Line(
          StrCat("uint8_t *const ", pointer.name, " = ", pointer.address, ";"));
    }
    --depth_;
    frames_.back().text += inner.text;
    Line("}");
  }

  const Memory& memory_;
  KernelSet& kernels_;
  StepText result_;
  std::vector<Frame> frames_;
  std::vector<std::unique_ptr<StreamEvent>> launches_;  // that have bodies
  size_t depth_ = 1;
  int next_pointer_ = 0;
  int next_loop_ = 0;
};

}  // namespace

StepText WriteStep(const Graph& graph, const Plan& plan,
                   const PlacedPlan* placed, const Memory& memory,
                   const Constants& constants, KernelSet* kernels) {
  const std::vector<StreamEvent> stream =
      placed == nullptr ? MakeStream(graph, plan)
                        : MakeStream(graph, plan, *placed);
  return StepWriter(memory, kernels).Write(graph, stream, constants);
}

std::string InComment(std::string_view text) {
  std::string safe;
  for (const char c : WithoutControls(text)) {
    const bool ends = c == '/' && safe.ends_with('*');
    const bool begins = c == '*' && safe.ends_with('/');
    if (ends || begins) safe += ' ';
    safe += c == '\\' || c == '\n' ? '|' : c;
  }
  return safe;
}

}  // namespace stowage::compile
