#include "gpu/kernel.h"

#include <array>

#include "base/strings.h"
#include "ir/bodies.h"
#include "ir/layout.h"
#include "ir/op_def.h"

namespace stowage::gpu {
namespace {

constexpr const GpuKernel* kKernels[] = {
#define STOWAGE_OP(kind, name) &kernels::kind,
#include "ir/ops.def"
#undef STOWAGE_OP
};

constinit std::array<GpuKernel, kMaxCustomOps> custom_kernels;

bool ComputesInFloat(const OpArgs& args) {
  if (args.count() == 0) return true;
  const DType dtype = args.type(0).dtype;
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

}  // namespace

Status DefineKernel(OpKind op, const GpuKernel& kernel) {
  STOWAGE_ASSIGN_OR_RETURN(const size_t index, CustomOpIndex(op, "GPU kernel"));
  custom_kernels[index] = kernel;
  return {};
}

const GpuKernel& GetKernel(OpKind op) {
  if (const auto index = CustomIndex(op)) return custom_kernels[*index];
  return *kKernels[static_cast<size_t>(op)];
}

Status Supports(const Graph& graph, const Node& node) {
  const GpuKernel& kernel = GetKernel(node.op);
  if (kernel.enqueue == nullptr && GetOpDef(node.op).is_view()) return {};
  const auto fail = [&](const std::string& what) -> Status {
    const std::string result =
        node.results.empty() ? "" : graph.value(node.results[0]).name;
    return Error{ErrorCode::kUnsupported, StrCat("[gpu] ", OpName(node.op),
                                                 " of ", Quoted(result), what)};
  };
  if (const auto bodies = BodiesOf(node); !bodies.empty()) {
    for (const auto& body : bodies) {
      for (const Node& inner : body->nodes()) {
        STOWAGE_RETURN_IF_ERROR(Supports(*body, inner));
      }
    }
    return {};
  }
  if (kernel.enqueue == nullptr) {
    return fail(
        " has no kernel; a graph that holds it can be planned, not run");
  }
  OpArgsStorage storage;
  const OpArgs args = MakeOpArgs(graph, node, &storage);
  const auto supports =
      kernel.supports == nullptr ? ComputesInFloat : kernel.supports;
  if (!supports(args)) {
    std::string types;
    for (int i = 0; i < args.count(); ++i) {
      types += StrCat(i == 0 ? "" : ", ", args.Describe(i));
    }
    return fail(StrCat(" is not computed in this element type: ", types,
                       "; cast to f32, bf16 or f16 first"));
  }
  const std::string lack = kernel.lacks == nullptr ? "" : kernel.lacks(args);
  if (!lack.empty()) {
    return fail(StrCat(" has ", lack,
                       ", for which there is no kernel; use the "
                       "cpu"));
  }
  const std::string excess =
      kernel.excess == nullptr ? "" : kernel.excess(args);
  if (excess.empty()) return {};
  return fail(
      StrCat(" is too large: ", excess, "; make it smaller, or use the cpu"));
}

std::string LacksSoftcap(const OpArgs& args) {
  const double cap = args.attrs.FloatOr("softcap", 0);
  return cap == 0 ? "" : StrCat("a softcap of ", cap);
}

}  // namespace stowage::gpu
