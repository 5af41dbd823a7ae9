#include "compile/interface.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "base/result.h"
#include "base/strings.h"
#include "ir/layout.h"

namespace stowage::compile {
namespace {

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
  Accessors(const CProgram& program, bool is_step, const Constants& constants,
            const CompileOptions& options)
      : graph_(program.graph),
        plan_(program.plan),
        constants_(constants),
        options_(options),
        prefix_(is_step ? options.prefix
                        : StrCat(options.prefix, "_", program.name)),
        layouts_(ComputeLayouts(program.graph)) {}

  void Add(std::string_view kind, const std::string& name, ValueId id) {
    const ValueInfo& value = graph_.value(id);
    const Layout& layout = layouts_[static_cast<size_t>(id)];
    const PlannedBuffer& buffer = plan_.buffers[static_cast<size_t>(
        plan_.buffer_of[static_cast<size_t>(id)])];
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
    const std::string base = !constant.empty() ? constant
                             : value.on_host   ? "slow"
                                               : "arena";
    list_.push_back(
        {.declaration =
             StrCat(is_const ? "const " : "", PlainCType(value.type.dtype),
                    " *", identifier, "(", ParametersOf(options_), ")"),
         .comment = comment,
         .address = StrCat(base, " + ",
                           plan_.AddressOf(buffer) + layout.byte_offset)});
  }

  std::vector<Accessor> Take() { return std::move(list_); }

 private:
  const Graph& graph_;
  const Plan& plan_;
  const Constants& constants_;
  const CompileOptions& options_;
  const std::string prefix_;
  const Layouts layouts_;
  std::map<std::string, int> counts_;
  std::vector<Accessor> list_;
};

}  // namespace

std::vector<Accessor> AccessorsOf(const CProgram& program, bool is_step,
                                  const Constants& constants,
                                  const CompileOptions& options) {
  const Graph& graph = program.graph;
  Accessors accessors(program, is_step, constants, options);
  for (const Role role : {Role::kInput, Role::kSaved, Role::kCache}) {
    for (const ValueId id : graph.Leaves(role)) {
      accessors.Add("input", graph.value(id).name, id);
    }
  }
  for (const GraphOutput& output : graph.outputs()) {
    accessors.Add("output", output.name, output.value);
  }
  if (!is_step) return accessors.Take();
  for (const ValueId id : graph.Leaves(Role::kParam)) {
    accessors.Add("param", graph.value(id).name, id);
  }
  for (const ValueId id : graph.Leaves(Role::kState)) {
    accessors.Add("state", graph.value(id).name, id);
  }
  return accessors.Take();
}

std::string ParametersOf(const CompileOptions& options,
                         const std::string& more) {
  const std::string_view arena = options.caller_arena ? "uint8_t *arena" : "";
  if (arena.empty() && more.empty()) return "void";
  return StrCat(arena, arena.empty() || more.empty() ? "" : ", ", more);
}

bool IsIdentifier(std::string_view text) {
  return !text.empty() && IsLetter(text.front()) &&
         std::ranges::all_of(text,
                             [](char c) { return IsLetter(c) || IsDigit(c); });
}

}  // namespace stowage::compile
