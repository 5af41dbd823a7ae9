#ifndef STOWAGE_COMPILE_COMPILE_H_
#define STOWAGE_COMPILE_COMPILE_H_

// Compiles a planned step to a C11 source file and its header, for microcontrollers and for
// applications that cannot link a library.
//
// The file has one block of memory, the plan's arena, and calls kernels at fixed addresses in it.
// It can also have one block for each memory of a board (CompileOptions::placement). It contains
// only the kernels that the step uses, specialized for its shapes. The code does not allocate,
// print or recurse. It calls the functions of math.h that are listed in its header.
//
//   Result<Plan> plan = PlanMemory(step, {.alignment = kCAlignment, .device = NeedsOfC()});
//   Result<CompiledStep> c = CompileToC(step, *plan, {.prefix = "mlp"});
//   // in the application:
//   //   mlp_init(42);
//   //   memcpy(mlp_input_x(), images, sizeof images);
//   //   *mlp_input_lr() = 0.1f;
//   //   int code = mlp_step();
//   //   printf("%f\n", *mlp_output_loss());

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "planner/placement.h"
#include "planner/plan.h"

namespace stowage {

/// The default alignment of buffers for C code, sufficient for vectors of 128 bits.
inline constexpr Bytes kCAlignment = 16;
/// Returns the alignment of buffers for which accesses to vectors of `simd` bytes are fastest. A
/// smaller alignment is valid, too.
constexpr Bytes AlignmentInC(int simd) {
  return simd > kCAlignment ? simd : kCAlignment;
}

/// Returns the workspace that the kernels in C require, and the ops that they fuse, for planning
/// steps that will be compiled. `simd` must be CompileOptions::simd, on which the workspace
/// depends.
DeviceNeeds NeedsOfC(int simd = 0);

/// Returns the bytes that the scalar kernel of a node loads and stores, for PlaceInRegions. This is
/// the memory traffic of a processor without a data cache. An operand that a matmul or a
/// convolution reads repeatedly counts each time. Accesses are counted in the kernel's source code
/// and multiplied by the numbers of iterations of the surrounding loops. A loop without constant
/// bounds counts as one iteration. The traffic of an operand or result is at least the traffic in
/// TrafficOf.
NodeTraffic TrafficOfC(const Graph& graph, const Layouts& layouts,
                       const Node& node, Bytes workspace);

/// Returns the params in `names` that no node of `step` updates, for PlanOptions::outside. They use
/// no memory of the plan and become constants of the file.
std::set<std::string> FrozenParams(const Graph& step,
                                   const std::set<std::string>& names);

struct CompileOptions {
  /// The prefix of all names in the file. Must be a C identifier.
  std::string prefix = "step";
  /// The name under which the source file includes the header.
  std::string header = "step.h";
  /// If true, the application passes a pointer to the arena to every function. Otherwise the file
  /// defines the arena.
  bool caller_arena = false;
  /// The size in bytes of the vectors of floats in which kernels compute, with the vector
  /// extensions of gcc and clang: 16, 32 or 64. 0 means standard C11 with scalar kernels.
  int simd = 0;
  /// The initial contents of params and states that do not start from their Init, by name, as
  /// row-major bytes. They become data of the C file. Params outside the arena
  /// (PlanOptions::outside) become constants, and the others become initial values.
  std::map<std::string, std::string> contents = {};
  /// A placement of all buffers in several regions (PlaceInRegions, for the same programs). Each
  /// region is a separate block of memory, instead of a single arena. The names of the regions must
  /// be C identifiers, and must differ even in upper case.
  std::optional<Placement> placement = {};
};

/// The generated code and its memory requirements.
struct CompiledStep {
  std::string source, header;
  Bytes arena = 0;   // the plan's arena, or the sum of all regions
  Bytes slow = 0;    // a second block, for offloaded values
  Bytes flash = 0;   // CompileOptions::contents
  Bytes stack = 0;   // an upper bound, without the functions of math.h
  Bytes saved = 0;   // the number of bytes that `PREFIX_save` writes
  int kernels = 0;   // the number of kernel functions
  int launches = 0;  // the number of their calls
};

/// A program of the file, which becomes the function `PREFIX_NAME`.
struct CProgram {
  std::string name;  // a C identifier, such as "step" or "evaluate"
  const Graph& graph;
  const Plan& plan;
};

/// Compiles several programs that share one arena. The first program is the training step. The
/// others share its params and states, which must be planned with its WeightLayout. The inputs of a
/// program are overwritten when another program runs or when its inputs are written.
///
/// Returns the errors of the overload below. Also returns kInvalidArgument if the first program
/// lacks a param or state of another program or has it at another address, or if
/// `options.placement` is not a valid placement of the programs (ValidatePlacement).
Result<CompiledStep> CompileToC(std::span<const CProgram> programs,
                                const CompileOptions& options = {});

/// Compiles `graph`, planned as `plan`, as the program "step".
///
/// Returns kInvalidArgument in these cases:
///   - `options.prefix` is not a C identifier, or `options.simd` is not 0, 16, 32 or 64.
///   - `plan` is not a plan of `graph`, or has less workspace than NeedsOfC(options.simd) requires.
///   - Ops or initial values cannot be written in C. The message lists all of them.
///   - The contents of a param or state do not have its size, are missing for a param outside the
///     arena, or are given for any other value.
/// Linear in the number of nodes and in the bytes of constants.
Result<CompiledStep> CompileToC(const Graph& graph, const Plan& plan,
                                const CompileOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_COMPILE_COMPILE_H_
