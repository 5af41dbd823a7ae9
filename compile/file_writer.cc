#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "base/strings.h"
#include "compile/file_parts.h"
#include "compile/helpers.h"
#include "ir/layout.h"

namespace stowage::compile {
namespace {

// Variables, saved registers and return addresses of the functions of the file, which are
// at most three deep: step, kernel, helper.
constexpr Bytes kStackOfScalars = 1024;
// Vectors that compilers spill, by their options for a processor with such vectors or without.
constexpr Bytes kVectorsOnStack = 64;

constexpr std::string_view kTypes = R"(
/* Elements in the arena, whose bytes hold numbers of one type and later of another. Kernels
 * are not inlined, so that the stack holds the variables of one at a time; nor compiled for
 * their addresses, by which gcc 12 would leave out stores. */
#if defined(__GNUC__) && !defined(__clang__)
#define MAY_ALIAS __attribute__((__may_alias__))
#define KERNEL static __attribute__((__noipa__))
#elif defined(__GNUC__)
#define MAY_ALIAS __attribute__((__may_alias__))
#define KERNEL static __attribute__((__noinline__))
#else
#define MAY_ALIAS
#define KERNEL static
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

// A C literal of 64 bits.
std::string Literal(uint64_t value) { return StrCat("UINT64_C(", value, ")"); }

// A param or state in the bytes that an application saves.
struct SavedValue {
  std::string name = {};
  std::string address = {};  // "arena + 256"
  Bytes at = 0;              // in the saved bytes
  Bytes bytes = 0;
};

// The bytes that an application saves: a fingerprint, and each param and state that is not a
// constant, by name. They depend on neither the plan nor the placement, so that a step with the
// same params and states can load them.
struct SavedBytes {
  uint64_t fingerprint = 0;  // of names and types
  std::vector<SavedValue> values = {};
  Bytes bytes = 0;  // with the fingerprint
};

SavedBytes SavedBytesOf(const CProgram& step, const Memory& memory,
                        const Constants& constants) {
  std::map<std::string, ValueId> by_name;
  for (const Role role : {Role::kParam, Role::kState}) {
    for (const ValueId id : step.graph.Leaves(role)) {
      const std::string& name = step.graph.value(id).name;
      if (constants.NameOf(name).empty()) by_name.emplace(name, id);
    }
  }
  SavedBytes saved{.bytes = sizeof(uint64_t)};
  Fnv1a hash;
  for (const auto& [name, id] : by_name) {
    const TensorType& type = step.graph.value(id).type;
    hash.Update(StrCat(name, ": ", type.ToString(), "\n"));
    saved.values.push_back(
        {.name = name,
         .address =
             memory.AddressOf(0, step.plan.buffer_of[static_cast<size_t>(id)]),
         .at = saved.bytes,
         .bytes = type.bytes()});
    saved.bytes += type.bytes();
  }
  saved.fingerprint = hash.digest();
  return saved;
}

// A function through which an application accesses a value.
struct Accessor {
  std::string declaration;  // "float *mlp_input_x(void)"
  std::string comment;      // "x: f32(32, 784)"
  std::string address;      // "arena + 256"
};

bool IsLetter(char c) {
  return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || c == '_';
}
bool IsDigit(char c) { return '0' <= c && c <= '9'; }

// The element type in the header, which has no typedefs.
std::string_view PlainCType(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "float";
    case DType::kF64:
      return "double";
    case DType::kF16:
    case DType::kBF16:
      return "uint16_t";
    case DType::kI16:
      return "int16_t";
    case DType::kI32:
      return "int32_t";
    case DType::kI64:
      return "int64_t";
    case DType::kU8:
    case DType::kBool:
      return "uint8_t";
  }
  STOWAGE_CHECK(false);
}

class Accessors {
 public:
  Accessors(const CProgram& program, size_t index, const Memory& memory,
            const Constants& constants, const CompileOptions& options)
      : graph_(program.graph),
        plan_(program.plan),
        index_(index),
        memory_(memory),
        constants_(constants),
        prefix_(index == 0 ? options.prefix
                           : StrCat(options.prefix, "_", program.name)),
        layouts_(ComputeLayouts(program.graph)) {}

  void Add(std::string_view kind, const std::string& name, ValueId id) {
    const ValueInfo& value = graph_.value(id);
    const Layout& layout = layouts_[static_cast<size_t>(id)];
    std::string identifier = StrCat(prefix_, "_", kind, "_");
    for (const char c : name) identifier += IsLetter(c) || IsDigit(c) ? c : '_';
    const int count = ++counts_[identifier];
    if (count > 1) identifier += StrCat("_", count);
    std::string comment = StrCat(name, ": ", value.type.ToString());
    if (!IsContiguous(value.type.shape, layout.strides)) {
      comment += StrCat(", strides ", layout.strides.ToString());
    }
    const std::string constant =
        constants_.NameOf(graph_.value(layout.root).name);
    const bool is_const = kind == "output" || !constant.empty();
    const std::string address =
        constant.empty() ? memory_.AddressOf(
                               index_, plan_.buffer_of[static_cast<size_t>(id)],
                               layout.byte_offset)
                         : StrCat(constant, " + ", layout.byte_offset);
    list_.push_back({.declaration = StrCat(
                         is_const ? "const " : "", PlainCType(value.type.dtype),
                         " *", identifier, "(", memory_.Parameters(), ")"),
                     .comment = comment,
                     .address = address});
  }

  std::vector<Accessor> Take() { return std::move(list_); }

 private:
  const Graph& graph_;
  const Plan& plan_;
  const size_t index_;  // of the program
  const Memory& memory_;
  const Constants& constants_;
  const std::string prefix_;
  const Layouts layouts_;
  std::map<std::string, int> counts_;
  std::vector<Accessor> list_;
};

// The accessors of inputs, outputs, params and states, in this order. Their names are those
// of the values, with `_` for characters that a C identifier cannot have and a number where
// two would be equal. Programs other than the step have only inputs and outputs, with the
// program's name in front. Values that the application may not write are const.
std::vector<Accessor> AccessorsOf(const CProgram& program, size_t index,
                                  const Memory& memory,
                                  const Constants& constants,
                                  const CompileOptions& options) {
  const Graph& graph = program.graph;
  Accessors accessors(program, index, memory, constants, options);
  for (const Role role : {Role::kInput, Role::kSaved, Role::kCache}) {
    for (const ValueId id : graph.Leaves(role)) {
      accessors.Add("input", graph.value(id).name, id);
    }
  }
  for (const GraphOutput& output : graph.outputs()) {
    accessors.Add("output", output.name, output.value);
  }
  if (index > 0) return accessors.Take();
  for (const ValueId id : graph.Leaves(Role::kParam)) {
    accessors.Add("param", graph.value(id).name, id);
  }
  for (const ValueId id : graph.Leaves(Role::kState)) {
    accessors.Add("state", graph.value(id).name, id);
  }
  return accessors.Take();
}

// One program of the file.
struct WrittenProgram {
  const CProgram& program;
  std::vector<Accessor> accessors;
  StepText text;
};

class FileWriter {
 public:
  FileWriter(std::span<const CProgram> programs, const CompileOptions& options)
      : plan_(programs.front().plan),
        graph_(programs.front().graph),
        options_(options),
        memory_(programs, options),
        constants_(graph_, plan_),
        upper_(Upper(options.prefix)),
        saved_(SavedBytesOf(programs.front(), memory_, constants_)),
        kernels_(options.simd) {
    for (const CProgram& program : programs) {
      const size_t index = programs_.size();
      programs_.push_back(
          {program,
           AccessorsOf(program, index, memory_, constants_, options),
           {}});
    }
    file_.arena = memory_.arena();
    file_.slow = memory_.slow();
    if (!saved_.values.empty()) file_.saved = saved_.bytes;
  }

  CompiledStep Write() {
    for (const auto& [name, bytes] : options_.contents) {
      file_.flash += static_cast<Bytes>(bytes.size());
    }
    for (size_t p = 0; p < programs_.size(); ++p) {
      WrittenProgram& each = programs_[p];
      each.text = WriteStep(each.program.graph, each.program.plan,
                            memory_.placed(p), memory_, constants_, &kernels_);
      file_.launches += each.text.launches;
    }
    file_.kernels = kernels_.count();
    file_.stack =
        kStackOfScalars + kernels_.stack() + kVectorsOnStack * options_.simd;
    const InitialText initial = WriteInitialValues(
        graph_, plan_, memory_, constants_, options_.contents);
    std::string functions =
        StrCat(constants_.Text(options_.contents), kernels_.text(),
               initial.functions, Init(initial));
    for (const WrittenProgram& each : programs_) functions += Run(each);
    functions += SaveAndLoad() + AccessFunctions();
    const std::string helpers = HelpersFor(functions);
    std::string math;
    for (const std::string_view name : MathFunctionsIn(helpers + functions)) {
      math += StrCat(math.empty() ? "" : ", ", name);
    }
    if (math.empty()) math = "none";
    Fnv1a hash;
    hash.Update(StrCat(helpers, functions, Header(math, 0)));
    const auto id = static_cast<int64_t>(hash.digest() >> 33);
    file_.source = StrCat(Top(id), helpers, functions);
    file_.header = Header(math, id);
    return std::move(file_);
  }

 private:
  std::string Name(std::string_view rest) const {
    return StrCat(options_.prefix, "_", rest);
  }
  std::string Macro(std::string_view rest) const {
    return StrCat(upper_, "_", rest);
  }

  // --- The source ---

  std::string Top(int64_t id) const {
    const bool is_small = file_.arena <= std::numeric_limits<int32_t>::max();
    std::string text = StrCat(
        "/* ", InComment(graph_.name()),
        ", compiled by Stowage: ", file_.launches, " launches of ",
        file_.kernels, " kernels in ", file_.arena, " bytes. See ",
        options_.header, ". */\n#include \"", options_.header, "\"\n\n#if ",
        Macro("FILES"), " != ", id, "\n#error \"", options_.header,
        " is of another step\"\n#endif\n\n#include <math.h>\n#include "
        "<stddef.h>\n#include <string.h>\n",
        kTypes, "/* Positions and counts. */\ntypedef ",
        is_small ? "int32_t" : "int64_t",
        " dim_t;\n\nenum { INDEX_OUT_OF_RANGE = ", Macro("INDEX_OUT_OF_RANGE"),
        " };\n\n");
    for (const MemoryBlock& block : memory_.blocks()) {
      if (block.is_parameter || block.bytes == 0) continue;
      const std::string section = Macro(block.section);
      if (!block.section.empty()) {
        text +=
            StrCat("#ifndef ", section, "\n#define ", section, "\n#endif\n");
      }
      text += StrCat("static ", block.section.empty() ? "" : section + " ",
                     "_Alignas(", plan_.alignment, ") uint8_t ", block.name,
                     "[", Macro(block.constant), "];\n");
    }
    return text + "\n";
  }

  std::string Init(const InitialText& initial) const {
    return StrCat("void ", Name("init"), "(",
                  memory_.Parameters("uint64_t seed"), ") {\n",
                  memory_.UnusedIn(initial.body), initial.body, "}\n\n");
  }

  std::string Run(const WrittenProgram& each) const {
    const Graph& graph = each.program.graph;
    std::string body = each.text.body;
    if (Mentions(body, "status")) body = "  int status;\n" + body;
    // Outputs follow inputs.
    size_t next = graph.Leaves(Role::kInput).size() +
                  graph.Leaves(Role::kSaved).size() +
                  graph.Leaves(Role::kCache).size();
    for (const GraphOutput& output : graph.outputs()) {
      const Accessor& accessor = each.accessors[next++];
      if (graph.value(output.value).type != TensorType{DType::kF32, {}}) {
        continue;
      }
      body += StrCat("  if (!isfinite(*AT(f32, ", accessor.address,
                     "))) return ", Macro("NON_FINITE"), ";\n");
    }
    return StrCat("int ", Name(each.program.name), "(", memory_.Parameters(),
                  ") {\n", memory_.UnusedIn(body), body, "  return 0;\n}\n\n");
  }

  std::string SaveParameters() const {
    return memory_.Parameters("uint8_t *to", "const ");
  }

  std::string SaveAndLoad() const {
    if (saved_.values.empty()) return "";
    std::string save = "  memcpy(to, &fingerprint, 8);\n";
    std::string load =
        StrCat("  if (memcmp(from, &fingerprint, 8) != 0) return ",
               Macro("OTHER_STEP"), ";\n");
    for (const SavedValue& value : saved_.values) {
      const std::string rest =
          StrCat(value.bytes, ");  /* ", InComment(value.name), " */\n");
      save +=
          StrCat("  memcpy(to + ", value.at, ", ", value.address, ", ", rest);
      load +=
          StrCat("  memcpy(", value.address, ", from + ", value.at, ", ", rest);
    }
    return StrCat(
        "static const uint64_t fingerprint = ", Literal(saved_.fingerprint),
        ";\n\nvoid ", Name("save"), "(", SaveParameters(), ") {\n",
        memory_.UnusedIn(save), save, "}\n\nint ", Name("load"), "(",
        memory_.Parameters("const uint8_t *from"), ") {\n",
        memory_.UnusedIn(load), load, "  return 0;\n}\n\n");
  }

  std::string AccessFunctions() const {
    std::string text;
    for (const WrittenProgram& each : programs_) {
      for (const Accessor& accessor : each.accessors) {
        const bool is_const = accessor.declaration.starts_with("const ");
        const std::string unused = memory_.UnusedIn(accessor.address);
        text += StrCat(accessor.declaration, " {\n", unused, "  return (",
                       is_const ? "const " : "", "void *)(", accessor.address,
                       ");\n}\n");
      }
    }
    return text;
  }

  // --- The header ---

  std::string Header(std::string_view math, int64_t id) const {
    const std::string guard = StrCat(upper_, "_H_");
    std::string text = StrCat(
        "#ifndef ", guard, "\n#define ", guard, "\n\n/* ",
        InComment(graph_.name()),
        ", a training step compiled by Stowage.\n *\n * Fill the inputs, call ",
        Name(programs_.front().program.name),
        ", read the outputs. Nothing is allocated; no function is\n * "
        "recursive, and none may run while another does.\n *\n * Functions of "
        "math.h: ",
        math,
        ".\n */\n\n#include <stdint.h>\n\n#ifdef __cplusplus\nextern "
        "\"C\" {\n#endif\n\n");
    const auto define = [&](std::string_view name, int64_t value,
                            std::string_view comment) {
      text += StrCat("/* ", comment, " */\n#define ", Macro(name), " ", value,
                     "\n");
    };
    for (const MemoryBlock& block : memory_.blocks()) {
      define(block.constant, block.bytes, block.comment);
    }
    define("FILES", id,
           "Of this header and its source, which goes with no other.");
    define("ARENA_ALIGNMENT", plan_.alignment, "Of the address of each block.");
    define("FLASH_BYTES", file_.flash,
           "Of weights in the file: frozen ones, and those that training "
           "begins with.");
    define("STACK_BYTES", file_.stack,
           StrCat("What a call needs of the stack by -Os and -O2, without the "
                  "functions of math.h",
                  options_.simd == 0 ? "" : "; not by -O0",
                  ".\n * More where compilers unroll loops (-O3) or compute in "
                  "wider vectors: -fstack-usage."));
    text += StrCat(
        "\n/* Codes; 0 is success. After an index outside of its range the "
        "step has stopped\n * where it was read. A scalar output that is not "
        "finite is found at the end. */\nenum {\n  ",
        Macro("INDEX_OUT_OF_RANGE"), " = 1,\n  ", Macro("NON_FINITE"),
        " = 2,\n  ", Macro("OTHER_STEP"),
        " = 3\n};\n\n/* Fills params and states; the same seed gives the same "
        "values as in the library. */\nvoid ",
        Name("init"), "(", memory_.Parameters("uint64_t seed"), ");\n\n");
    for (const WrittenProgram& each : programs_) {
      const bool is_step = &each == &programs_.front();
      text += StrCat(is_step ? "/* One step. */\n"
                             : "/* With the params of the step; inputs of the "
                               "one are lost when the other runs. */\n",
                     "int ", Name(each.program.name), "(", memory_.Parameters(),
                     ");\n");
    }
    if (!saved_.values.empty()) {
      text += "\n";
      define("SAVED_BYTES", saved_.bytes,
             "Params and states by name, behind a fingerprint of their names "
             "and types.");
      text += StrCat("void ", Name("save"), "(", SaveParameters(), ");\nint ",
                     Name("load"), "(",
                     memory_.Parameters("const uint8_t *from"), ");\n");
    }
    text +=
        "\n/* Values, row-major. Inputs stay as they are until they are "
        "written again. */\n";
    for (const WrittenProgram& each : programs_) {
      for (const Accessor& accessor : each.accessors) {
        text += StrCat(accessor.declaration, ";  /* ",
                       InComment(accessor.comment), " */\n");
      }
    }
    return text + StrCat("\n#ifdef __cplusplus\n}\n#endif\n\n#endif /* ", guard,
                         " */\n");
  }

  const Plan& plan_;  // of the step
  const Graph& graph_;
  const CompileOptions& options_;
  const Memory memory_;
  const Constants constants_;
  const std::string upper_;
  const SavedBytes saved_;
  std::vector<WrittenProgram> programs_;
  KernelSet kernels_;
  CompiledStep file_;
};

}  // namespace

CompiledStep WriteFile(std::span<const CProgram> programs,
                       const CompileOptions& options) {
  return FileWriter(programs, options).Write();
}

std::string Upper(std::string_view text) {
  std::string upper;
  for (const char c : text) {
    upper += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return upper;
}

bool IsIdentifier(std::string_view text) {
  return !text.empty() && IsLetter(text.front()) &&
         std::ranges::all_of(text,
                             [](char c) { return IsLetter(c) || IsDigit(c); });
}

}  // namespace stowage::compile
