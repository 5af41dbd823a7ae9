#include "compile/compile.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/strings.h"
#include "compile/helpers.h"
#include "compile/initial_values.h"
#include "compile/interface.h"
#include "compile/kernel_set.h"
#include "compile/ops.h"
#include "compile/refusals.h"
#include "compile/step_writer.h"
#include "compile/widened.h"
#include "ir/fused.h"
#include "ir/op_def.h"

namespace stowage {

using compile::Accessor;
using compile::InComment;
using compile::KernelSet;
using compile::ParametersOf;
using compile::StepText;

namespace {

// Variables, saved registers and return addresses of the functions of the file, which are
// at most three deep: step, kernel, helper.
constexpr Bytes kStackOfScalars = 1024;

constexpr std::string_view kTypes = R"(
/* Elements in the arena, whose bytes hold numbers of one type and later of another. */
#if defined(__GNUC__)
#define MAY_ALIAS __attribute__((__may_alias__))
#else
#define MAY_ALIAS
#endif
typedef float MAY_ALIAS f32;
typedef double MAY_ALIAS f64;
typedef uint16_t MAY_ALIAS f16;
typedef uint16_t MAY_ALIAS bf16;
typedef int16_t MAY_ALIAS i16;
typedef int32_t MAY_ALIAS i32;
typedef int64_t MAY_ALIAS i64;
typedef uint8_t u8;

/* What is at an address. */
#define AT(type, address) ((type *)(void *)(address))

)";

std::string Upper(std::string_view text) {
  std::string upper;
  for (const char c : text) {
    upper += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return upper;
}

Bytes WorkspaceInC(const Graph& graph, const Node& node) {
  if (compile::OpInC(node.op).write == nullptr) return 0;
  return compile::ScratchOf(graph, node) *
         SizeOf(compile::Kernel(graph, node, nullptr).real());
}

Status CheckScratch(const Graph& graph, const Plan& plan) {
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Bytes needed = WorkspaceInC(graph, graph.node(id));
    if (needed == 0) continue;
    const int32_t buffer = plan.workspace_of[static_cast<size_t>(id)];
    const Bytes planned =
        buffer < 0 ? 0 : plan.buffers[static_cast<size_t>(buffer)].size;
    if (planned >= needed) continue;
    return InvalidArgumentError(
        "[compile] the plan has ", planned, " bytes of scratch memory for ",
        graph.Describe(id), ", whose kernel in C needs ", needed,
        "; plan with NeedsOfC()");
  }
  return {};
}

Status CheckContents(const Graph& graph,
                     const std::map<std::string, std::string>& contents) {
  for (const auto& [name, bytes] : contents) {
    const std::optional<ValueId> id = graph.Find(name);
    const Role role = id ? graph.value(*id).role : Role::kInput;
    if (role != Role::kParam && role != Role::kState) {
      return InvalidArgumentError("[compile] contents are given for ",
                                  Quoted(name),
                                  ", which is no param and no state");
    }
    const TensorType& type = graph.value(*id).type;
    if (static_cast<Bytes>(bytes.size()) == type.bytes()) continue;
    return InvalidArgumentError("[compile] the contents of ", Quoted(name),
                                " are ", bytes.size(), " bytes; ",
                                type.ToString(), " has ", type.bytes());
  }
  return {};
}

Status CheckCanBeWritten(const Graph& graph, const CompileOptions& options) {
  const std::vector<std::string> refused =
      compile::RefusalsOf(graph, options.contents);
  if (refused.empty()) return {};
  std::string list;
  for (const std::string& each : refused) {
    list += (list.empty() ? "" : ", ") + each;
  }
  return InvalidArgumentError("[compile] not available in C: ", list,
                              "; docs/embedded.md lists what is");
}

// What outlives a step, from the arena's first byte on.
Bytes SavedBytes(const Plan& plan) {
  return plan.regions.weights + plan.regions.state;
}

// A C literal of 64 bits.
std::string Literal(uint64_t value) { return StrCat("UINT64_C(", value, ")"); }

class FileWriter {
 public:
  FileWriter(const Graph& graph, const Plan& plan,
             const CompileOptions& options)
      : graph_(graph),
        plan_(plan),
        options_(options),
        upper_(Upper(options.prefix)),
        accessors_(compile::AccessorsOf(graph, plan, options)) {}

  CompiledStep Write() {
    step_ = compile::WriteStep(graph_, plan_, &kernels_);
    const compile::InitialText initial =
        compile::WriteInitialValues(graph_, plan_, options_.contents);
    std::string functions = StrCat(kernels_.text(), initial.functions,
                                   Init(initial), Step(), SaveAndLoad());
    functions += AccessFunctions();
    const std::string helpers = compile::HelpersFor(functions);
    for (const std::string_view name :
         compile::MathFunctionsIn(helpers + functions)) {
      math_ += StrCat(math_.empty() ? "" : ", ", name);
    }
    CompiledStep compiled;
    compiled.arena = plan_.arena_bytes();
    compiled.slow = plan_.host_bytes();
    compiled.stack = kStackOfScalars + kernels_.stack();
    compiled.kernels = kernels_.count();
    compiled.launches = step_.launches;
    stack_ = compiled.stack;
    compiled.source = StrCat(Top(), helpers, functions);
    compiled.header = Header();
    return compiled;
  }

 private:
  std::string Name(std::string_view rest) const {
    return StrCat(options_.prefix, "_", rest);
  }
  std::string Macro(std::string_view rest) const {
    return StrCat(upper_, "_", rest);
  }

  std::string Top() const {
    const bool is_small =
        plan_.arena_bytes() <= std::numeric_limits<int32_t>::max();
    std::string text = StrCat(
        "/* ", InComment(graph_.name()),
        ", compiled by Stowage: ", step_.launches, " launches of ",
        kernels_.count(), " kernels in ", plan_.arena_bytes(), " bytes. See ",
        options_.header, ". */\n#include \"", options_.header,
        "\"\n\n#include <math.h>\n#include <stddef.h>\n#include <string.h>\n",
        kTypes, "/* Positions and counts. */\ntypedef ",
        is_small ? "int32_t" : "int64_t", " dim_t;\n\n");
    text += StrCat("enum { INDEX_OUT_OF_RANGE = ", Macro("INDEX_OUT_OF_RANGE"),
                   " };\n\n");
    if (!options_.caller_arena) {
      text += StrCat("static _Alignas(", plan_.alignment, ") uint8_t arena[",
                     Macro("ARENA_BYTES"), "];\n");
    }
    if (plan_.host_bytes() > 0) {
      text += StrCat("static _Alignas(", plan_.alignment, ") uint8_t slow[",
                     Macro("SLOW_BYTES"), "];\n");
    }
    return text + "\n";
  }

  // A function that does not use the arena that it is given says so.
  std::string_view UnusedArena(std::string_view body) const {
    const bool is_unused =
        options_.caller_arena && !compile::Mentions(body, "arena");
    return is_unused ? "  (void)arena;\n" : "";
  }

  std::string Init(const compile::InitialText& initial) const {
    return StrCat("void ", Name("init"), "(",
                  ParametersOf(options_, "uint64_t seed"), ") {\n",
                  UnusedArena(initial.body), initial.body, "}\n\n");
  }

  std::string Step() const {
    std::string body = step_.body;
    if (compile::Mentions(body, "status")) body = "  int status;\n" + body;
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      const TensorType& type = graph_.value(graph_.outputs()[i].value).type;
      if (type != TensorType{DType::kF32, {}}) continue;
      body += StrCat("  if (!isfinite(*AT(f32, ", AddressOfOutput(i),
                     "))) return ", Macro("NON_FINITE"), ";\n");
    }
    return StrCat("int ", Name("step"), "(", ParametersOf(options_), ") {\n",
                  UnusedArena(body), body, "  return 0;\n}\n\n");
  }

  // Outputs come behind inputs.
  std::string AddressOfOutput(size_t output) const {
    const size_t inputs = graph_.Leaves(Role::kInput).size() +
                          graph_.Leaves(Role::kSaved).size() +
                          graph_.Leaves(Role::kCache).size();
    return accessors_[inputs + output].address;
  }

  std::string SaveAndLoad() const {
    if (SavedBytes(plan_) == 0) return "";
    std::string text = StrCat(
        "static const uint64_t fingerprint = ", Literal(plan_.fingerprint),
        ";\n\nvoid ", Name("save"), "(",
        options_.caller_arena ? "const uint8_t *arena, uint8_t *to"
                              : "uint8_t *to",
        ") {\n  memcpy(to, &fingerprint, 8);\n  memcpy(to + 8, arena, ",
        SavedBytes(plan_), ");\n");
    if (plan_.regions.host_state > 0) {
      text += StrCat("  memcpy(to + ", 8 + SavedBytes(plan_), ", slow, ",
                     plan_.regions.host_state, ");\n");
    }
    text += StrCat("}\n\nint ", Name("load"), "(",
                   ParametersOf(options_, "const uint8_t *from"),
                   ") {\n  if (memcmp(from, &fingerprint, 8) != 0) return ",
                   Macro("OTHER_STEP"), ";\n  memcpy(arena, from + 8, ",
                   SavedBytes(plan_), ");\n");
    if (plan_.regions.host_state > 0) {
      text += StrCat("  memcpy(slow, from + ", 8 + SavedBytes(plan_), ", ",
                     plan_.regions.host_state, ");\n");
    }
    return text + "  return 0;\n}\n\n";
  }

  std::string AccessFunctions() const {
    std::string text;
    for (const Accessor& accessor : accessors_) {
      const bool is_unused = options_.caller_arena &&
                             !compile::Mentions(accessor.address, "arena");
      text +=
          StrCat(accessor.declaration, " { ", is_unused ? "(void)arena; " : "",
                 "return (void *)(", accessor.address, "); }\n");
    }
    return text;
  }

  std::string Header() const {
    const std::string guard = StrCat(upper_, "_H_");
    std::string text = StrCat(
        "#ifndef ", guard, "\n#define ", guard, "\n\n/* ",
        InComment(graph_.name()),
        ", a training step compiled by Stowage.\n *\n * Fill the inputs, call ",
        Name("step"),
        ", read the outputs. Nothing is allocated; no function is\n * "
        "recursive, and none may run while another does.\n *\n * Functions of "
        "math.h: ",
        math_.empty() ? "none" : math_, ".\n */\n\n#include <stdint.h>\n\n");
    const auto define = [&](std::string_view name, int64_t value,
                            std::string_view comment) {
      text += StrCat("/* ", comment, " */\n#define ", Macro(name), " ", value,
                     "\n");
    };
    define("ARENA_BYTES", plan_.arena_bytes(),
           options_.caller_arena
               ? "Of the block that the application provides, zeroed."
               : "Of the block in the file, in .bss.");
    define("ARENA_ALIGNMENT", plan_.alignment, "Of its address.");
    define(
        "SLOW_BYTES", plan_.host_bytes(),
        "Of a second block, of what the plan offloads: slow memory will do.");
    define("STACK_BYTES", stack_,
           "What a call needs of the stack, without the functions of math.h.");
    text += StrCat(
        "\n/* Codes; 0 is success. After an index outside of its range "
        "the step has stopped\n * where it was read. A scalar output "
        "that is not finite is found at the end. */\nenum {\n  ",
        Macro("INDEX_OUT_OF_RANGE"), " = 1,\n  ", Macro("NON_FINITE"),
        " = 2,\n  ", Macro("OTHER_STEP"),
        " = 3\n};\n\n/* Fills params and states; the same seed gives "
        "the same values as in the library. */\nvoid ",
        Name("init"), "(", ParametersOf(options_, "uint64_t seed"),
        ");\n\n/* One step. */\nint ", Name("step"), "(",
        ParametersOf(options_), ");\n");
    if (SavedBytes(plan_) > 0) {
      text += "\n";
      define("SAVED_BYTES", 8 + SavedBytes(plan_) + plan_.regions.host_state,
             "Params and states as bytes, behind a fingerprint of the step.");
      text += StrCat("void ", Name("save"), "(",
                     options_.caller_arena ? "const uint8_t *arena, uint8_t *to"
                                           : "uint8_t *to",
                     ");\nint ", Name("load"), "(",
                     ParametersOf(options_, "const uint8_t *from"), ");\n");
    }
    text +=
        "\n/* Values, row-major. Inputs stay as they are until they are "
        "written again. */\n";
    for (const Accessor& accessor : accessors_) {
      text += StrCat(accessor.declaration, ";  /* ",
                     InComment(accessor.comment), " */\n");
    }
    return text + StrCat("\n#endif /* ", guard, " */\n");
  }

  const Graph& graph_;
  const Plan& plan_;
  const CompileOptions& options_;
  const std::string upper_;
  const std::vector<Accessor> accessors_;
  KernelSet kernels_;
  StepText step_;
  std::string math_;
  Bytes stack_ = 0;
};

}  // namespace

DeviceNeeds NeedsOfC() {
  DeviceNeeds needs;
  needs.workspace = WorkspaceInC;
  needs.fusions.elementwise = MayBeFused;
  needs.fusions.products = true;
  needs.fusions.epilogues = true;
  needs.device = "C";
  return needs;
}

Result<CompiledStep> CompileToC(const Graph& graph, const Plan& plan,
                                const CompileOptions& options) {
  if (!compile::IsIdentifier(options.prefix)) {
    return InvalidArgumentError("[compile] the prefix ", Quoted(options.prefix),
                                " is no C identifier; expected letters, digits "
                                "and _, no digit first");
  }
  STOWAGE_RETURN_IF_ERROR(CheckPlanIsFor(plan, graph));
  STOWAGE_RETURN_IF_ERROR(CheckCanBeWritten(graph, options));
  STOWAGE_RETURN_IF_ERROR(CheckScratch(graph, plan));
  STOWAGE_RETURN_IF_ERROR(CheckContents(graph, options.contents));
  return FileWriter(graph, plan, options).Write();
}

}  // namespace stowage
