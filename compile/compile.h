#ifndef STOWAGE_COMPILE_COMPILE_H_
#define STOWAGE_COMPILE_COMPILE_H_

// Compiles a planned step to a C11 source file and its header, for microcontrollers and for
// applications that cannot link a library.
//
// The file defines one block of memory, the plan's arena, and its functions compute at fixed
// addresses in this block. Instead, it can define one block for each memory of a board
// (CompileOptions::placement). Values that the plan offloads are in a further block. The file
// contains only the kernels that the step uses, specialized for its shapes. The code does not
// allocate, print or recurse. It calls only those functions of math.h that the header lists.
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

/// The default alignment of buffers in C code, which is sufficient for vectors of 128 bits.
inline constexpr Bytes kCAlignment = 16;
/// Returns the alignment of buffers with which code for vectors of `simd` bytes
/// (CompileOptions::simd) is fastest. A smaller alignment is valid, too.
constexpr Bytes AlignmentInC(int simd) {
  return simd > kCAlignment ? simd : kCAlignment;
}

/// Returns the workspace that the kernels in C require, and the ops that can be fused in C, for
/// planning steps that will be compiled (PlanOptions::device). `simd` must equal
/// CompileOptions::simd, because the workspace depends on it.
DeviceNeeds NeedsOfC(int simd = 0);

/// Returns the bytes that the scalar kernel of a node loads and stores, for PlaceInRegions
/// (planner/placement.h). This is the memory traffic of a processor without a data cache: if a
/// matmul or a convolution reads an operand repeatedly, each read counts. Accesses are counted in
/// the kernel's source code, and each is multiplied by the numbers of iterations of the surrounding
/// loops. A loop without constant bounds counts as one iteration. The traffic of an operand or
/// result is at least the traffic that TrafficOf returns. For nodes without a kernel in C, and for
/// kernels that compute with f32 copies of 16-bit floats, it equals the traffic of TrafficOf.
NodeTraffic TrafficOfC(const Graph& graph, const Layouts& layouts,
                       const Node& node, Bytes workspace);

/// Returns the params in `names` that no node of `step` updates, for PlanOptions::outside
/// (planner/plan.h). These params use no memory of the plan and become constants of the file.
std::set<std::string> FrozenParams(const Graph& step,
                                   const std::set<std::string>& names);

struct CompileOptions {
  /// The prefix of all names in the file. Must be a C identifier.
  std::string prefix = "step";
  /// The file name with which the source file includes the header. It is written without checks, so
  /// it must be valid in #include "...".
  std::string header = "step.h";
  /// If true, the application passes a pointer to the arena to every function. Otherwise the file
  /// defines the arena.
  bool caller_arena = false;
  /// The size of the vectors of floats with which kernels compute, in bytes: 16, 32 or 64. Vectors
  /// require the vector extensions of gcc and clang. 0 means standard C11 with scalar kernels.
  int simd = 0;
  /// The initial contents of params and states that do not start from their Init, by name, as
  /// row-major bytes. They become data of the C file. Params outside the arena
  /// (PlanOptions::outside) must have contents, which become constants. Other contents are copied
  /// to the params and states by `PREFIX_init`.
  std::map<std::string, std::string> contents = {};
  /// A placement of the buffers of all programs in several regions (PlaceInRegions). Each region is
  /// a separate block of memory, instead of a single arena. The names of the regions must be C
  /// identifiers that differ in more than the case of letters.
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
  /// The name, such as "step" or "evaluate". It must be a C identifier, differ from the names of
  /// the other programs, and not be "init", "save" or "load". This is not checked.
  std::string name;
  const Graph& graph;
  const Plan& plan;
};

/// Compiles several programs that share one arena. At least one program is required. The first
/// program is the training step. The other programs use the params and states of the step, so they
/// must be planned with the WeightLayout of its plan (planner/plan.h). Running another program, or
/// writing its inputs, overwrites the inputs of a program.
///
/// Returns the errors of the overload for one program. Also returns kInvalidArgument if the first
/// program lacks a param or state of another program, or if the two programs have it at different
/// addresses. With `options.placement`, returns kInvalidArgument if it is not a valid placement of
/// the programs (ValidatePlacement) or if the name of a region is invalid.
Result<CompiledStep> CompileToC(std::span<const CProgram> programs,
                                const CompileOptions& options = {});

/// Compiles `graph`, planned as `plan`, as the program "step".
///
/// Returns kInvalidArgument in these cases:
///   - `options.prefix` is not a C identifier, or `options.simd` is not 0, 16, 32 or 64.
///   - `plan` is not a plan of `graph`, or has less workspace than NeedsOfC(options.simd) requires.
///   - An op or an initial value is not available in C. The message lists all of them.
///   - `options.contents` has no entry for a param outside the arena, an entry whose size differs
///     from the size of the param or state, or an entry for another value.
/// Linear in the number of nodes and in the bytes of constants.
Result<CompiledStep> CompileToC(const Graph& graph, const Plan& plan,
                                const CompileOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_COMPILE_COMPILE_H_
