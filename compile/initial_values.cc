#include <set>
#include <string_view>

#include "base/hash.h"
#include "base/result.h"
#include "base/strings.h"
#include "compile/file_parts.h"
#include "compile/helpers.h"
#include "compile/kernel.h"

namespace stowage::compile {
namespace {

// The element, from `seed`, `stream`, the index `i` and `scale`.
std::string_view ElementOf(Init::Kind kind) {
  switch (kind) {
    case Init::Kind::kConstant:
    case Init::Kind::kOnes:
      return "scale";
    case Init::Kind::kUniform:
      return "scale * (2 * first_uniform(seed, stream, (uint64_t)i) - 1)";
    case Init::Kind::kNormal:
      return "scale * first_normal(seed, stream, (uint64_t)i)";
    case Init::Kind::kTruncatedNormal:
      return "scale * first_truncated(seed, stream, (uint64_t)i)";
    case Init::Kind::kZeros:
    case Init::Kind::kOrthogonal:
      break;
  }
  STOWAGE_CHECK(false);
}

std::string_view NameOf(Init::Kind kind) {
  switch (kind) {
    case Init::Kind::kConstant:
    case Init::Kind::kOnes:
      return "fill";
    case Init::Kind::kUniform:
      return "uniform";
    case Init::Kind::kNormal:
      return "normal";
    default:
      return "truncated";
  }
}

// `x`, a double, rounded to the type.
std::string Converted(DType dtype, std::string_view x) {
  if (dtype == DType::kF16) return StrCat("float_to_half((float)(", x, "))");
  if (dtype == DType::kBF16) {
    return StrCat("float_to_bfloat16((float)(", x, "))");
  }
  return StrCat("(", CType(dtype), ")(", x, ")");
}

bool IsRandom(Init::Kind kind) {
  return kind == Init::Kind::kUniform || kind == Init::Kind::kNormal ||
         kind == Init::Kind::kTruncatedNormal;
}

// static void first_normal_f32(f32 *x, dim_t count, double scale, ...)
std::string FunctionFor(const std::string& name, Init::Kind kind, DType dtype) {
  return StrCat("static void ", name, "(", CType(dtype),
                " *x, dim_t count, double scale",
                IsRandom(kind) ? ", uint64_t stream, uint64_t seed" : "",
                ") {\n  for (dim_t i = 0; i < count; ++i) {\n    x[i] = ",
                Converted(dtype, ElementOf(kind)), ";\n  }\n}\n\n");
}

}  // namespace

InitialText WriteInitialValues(
    const Graph& graph, const Plan& plan, const Memory& memory,
    const Constants& constants,
    const std::map<std::string, std::string>& contents) {
  InitialText text;
  std::set<std::string> functions;
  bool is_random = false;
  int given_count = 0;
  for (const Role role : {Role::kParam, Role::kState}) {
    for (const ValueId id : graph.Leaves(role)) {
      const ValueInfo& value = graph.value(id);
      if (!constants.NameOf(value.name).empty()) continue;
      const std::string address =
          memory.AddressOf(0, plan.buffer_of[static_cast<size_t>(id)]);
      const std::string comment =
          StrCat("  /* ", InComment(value.name), " */\n");
      if (const auto given = contents.find(value.name);
          given != contents.end()) {
        const std::string name = StrCat("given_", given_count++);
        text.functions +=
            StrCat("static const uint8_t ", name, "[", given->second.size(),
                   "] = {", comment, BytesInC(given->second), "};\n\n");
        text.body += StrCat("  copy_data(", address, ", ", name, ", sizeof ",
                            name, ");", comment);
        continue;
      }
      if (value.init.kind == Init::Kind::kZeros) {
        text.body += StrCat("  memset(", address, ", 0, ", value.type.bytes(),
                            ");", comment);
        continue;
      }
      const DType dtype = value.type.dtype;
      const std::string name =
          StrCat("first_", NameOf(value.init.kind), "_", CType(dtype));
      if (functions.insert(name).second) {
        text.functions += FunctionFor(name, value.init.kind, dtype);
      }
      Fnv1a stream;
      stream.Update(value.name);
      const double scale =
          value.init.kind == Init::Kind::kOnes ? 1 : value.init.scale;
      text.body +=
          StrCat("  ", name, "(AT(", CType(dtype), ", ", address, "), ",
                 value.type.shape.num_elements(), ", ", scale,
                 IsRandom(value.init.kind)
                     ? StrCat(", UINT64_C(", stream.digest(), "), seed")
                     : "",
                 ");", comment);
      is_random = is_random || IsRandom(value.init.kind);
    }
  }
  if (!is_random) text.body += "  (void)seed;\n";
  return text;
}

Constants::Constants(const Graph& graph, const Plan& plan)
    : alignment_(plan.alignment) {
  for (const ValueId id : graph.Leaves(Role::kParam)) {
    const PlannedBuffer& buffer = plan.buffers[static_cast<size_t>(
        plan.buffer_of[static_cast<size_t>(id)])];
    if (buffer.region != Region::kOutside) continue;
    names_.emplace(graph.value(id).name, StrCat("frozen_", names_.size()));
  }
}

std::string Constants::NameOf(std::string_view param) const {
  const auto at = names_.find(param);
  return at == names_.end() ? "" : at->second;
}

std::string Constants::Text(
    const std::map<std::string, std::string>& contents) const {
  std::string text;
  for (const auto& [param, name] : names_) {
    const std::string& bytes = contents.at(param);
    text += StrCat("/* ", InComment(param), " */\nstatic const _Alignas(",
                   alignment_, ") uint8_t ", name, "[", bytes.size(), "] = {\n",
                   BytesInC(bytes), "};\n\n");
  }
  return text;
}

}  // namespace stowage::compile
