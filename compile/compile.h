#ifndef STOWAGE_COMPILE_COMPILE_H_
#define STOWAGE_COMPILE_COMPILE_H_

// A planned step as one C11 file: for microcontrollers, and for products that should not
// link a library.
//
// The file has one block of memory, the plan's arena, and calls of kernels at fixed
// addresses in it; or one block for each memory of a board (CompileOptions::placement). Only kernels that the step uses are in it, written for its shapes. It
// allocates nothing, prints nothing, has no recursion, and calls the functions of math.h
// that its header names.
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

/// The alignment of slots for C: enough for vectors of 128 bits.
inline constexpr Bytes kCAlignment = 16;
/// The alignment with which vectors of `simd` bytes are accessed fastest. They need no alignment.
constexpr Bytes AlignmentInC(int simd) {
  return simd > kCAlignment ? simd : kCAlignment;
}

/// The workspace of the kernels in C and the ops that they fuse, for plans of steps to be
/// compiled. `simd` is CompileOptions::simd, on which the workspace depends.
DeviceNeeds NeedsOfC(int simd = 0);

/// The loads and stores that the scalar kernel of a node executes, in bytes, for PlaceInRegions:
/// what a processor without a data cache moves. An operand that a matmul or a convolution reads
/// repeatedly counts each time. Counted in the text of the kernel, each access as often as the
/// loops around it run; loops without constant bounds count as one iteration, and no operand or
/// result less than in TrafficOf.
NodeTraffic TrafficOfC(const Graph& graph, const Layouts& layouts,
                       const Node& node, Bytes workspace);

/// The params of `names` that no node of `step` updates, for PlanOptions::outside: they take no
/// memory of the plan, and the file has them as constants.
std::set<std::string> FrozenParams(const Graph& step,
                                   const std::set<std::string>& names);

struct CompileOptions {
  /// The prefix of all names, a C identifier.
  std::string prefix = "step";
  /// The name under which the source includes the header.
  std::string header = "step.h";
  /// Whether the application passes the arena to every function, as a pointer; otherwise the
  /// file defines it.
  bool caller_arena = false;
  /// Bytes of the vectors of floats in which kernels compute, by the extensions of gcc and
  /// clang: 16, 32 or 64. 0: the file is C11, with scalar kernels.
  int simd = 0;
  /// The bytes, row-major, of params and states that start from given weights instead of their
  /// Init, by name. They become data of the C file: params outside the arena
  /// (PlanOptions::outside) as constants, the others as initial values.
  std::map<std::string, std::string> contents = {};
  /// The places of all buffers in regions, each of which is a block of its own, instead of one
  /// arena (PlaceInRegions, of the same programs). Names of regions are C identifiers that
  /// differ in upper case, too.
  std::optional<Placement> placement = {};
};

struct CompiledStep {
  std::string source, header;
  Bytes arena = 0;   // of the plan, or the sum of all regions' blocks
  Bytes slow = 0;    // of offloaded values, a second block
  Bytes flash = 0;   // of contents
  Bytes stack = 0;   // a bound, without the functions of math.h
  Bytes saved = 0;   // that `PREFIX_save` writes
  int kernels = 0;   // functions
  int launches = 0;  // calls of them
};

/// A program of the file: the function `PREFIX_NAME`.
struct CProgram {
  std::string name;  // a C identifier: "step", "evaluate"
  const Graph& graph;
  const Plan& plan;
};

/// Writes several programs over one arena, the training step first. The others share its
/// params and states, by its WeightLayout. A program's inputs are lost when another one runs
/// or gets inputs. Errors: those below, and kInvalidArgument if the step lacks a param or has
/// it at another address, or if the placement is not one of the programs (ValidatePlacement).
Result<CompiledStep> CompileToC(std::span<const CProgram> programs,
                                const CompileOptions& options = {});

/// Writes `graph`, planned by `plan`, as the program "step". Errors, kInvalidArgument: a
/// prefix that is no C identifier; vectors of other sizes; a plan that is not for the graph or has less workspace
/// than NeedsOfC(options.simd); ops, types or initial values that cannot be written in C, all in one
/// message; contents of another length than their param, or missing for one outside the
/// arena. Linear in nodes and in bytes of constants.
Result<CompiledStep> CompileToC(const Graph& graph, const Plan& plan,
                                const CompileOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_COMPILE_COMPILE_H_
