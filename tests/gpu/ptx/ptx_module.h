#ifndef STOWAGE_TESTS_GPU_PTX_PTX_MODULE_H_
#define STOWAGE_TESTS_GPU_PTX_PTX_MODULE_H_

// Parses PTX that nvcc wrote into arrays that the interpreter can execute. Registers and
// immediates become offsets into two byte arrays, instruction names become functions, and labels
// become indices.
//
// The parser accepts the PTX of this project's kernels: entries with one param, .reg and .shared
// declarations, labels, guards, vector operands, tensors with coordinates, scopes, and calls of
// the one driver function that the kernels use. Any other PTX is an error, which quotes the line.
//
// Only one thread at a time may use a Module, since Find modifies it. Kernels that it has returned
// do not change.
//
//   Module module;
//   STOWAGE_RETURN_IF_ERROR(module.Add(text));     // finds the entries
//   STOWAGE_ASSIGN_OR_RETURN(const Kernel* kernel,
//                            module.Find("_Z7SoftmaxN..."));  // parses this one
//
// Instructions are implemented from NVIDIA's "Parallel Thread Execution ISA", version 9.0. The
// interpreter shares no code with gpu/emulator.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stowage::testing::ptx {

inline constexpr int kLanes = 32;
inline constexpr uint32_t kAllLanes = 0xFFFFFFFF;

struct Warp;
struct Instruction;
using Handler = void (*)(Warp&, const Instruction&);

/// The effect of an instruction on the control flow of its warp.
enum class Flow : uint8_t {
  kNext,       // continues
  kWhole,      // requires all 32 lanes, and continues
  kBranch,     // jumps to a label
  kReturn,     // exits the lanes that execute it
  kBarrier,    // waits at a barrier of the block
  kArrive,     // arrives at a barrier of the block, and continues
  kWarpgroup,  // waits for all lanes of the warpgroup's four warps, and continues
};

/// A kind of instruction.
struct Operation {
  std::string name;  // with all suffixes, for example "setp.lt.s32"
  Handler run = nullptr;
  Flow flow = Flow::kNext;
  /// The size of each operand in bytes (2, 4 or 8), or kPredicate, kAnySize or, for operands in
  /// brackets, kAddress. The last element applies to all remaining operands.
  std::vector<uint8_t> widths;
  /// True if a lane's result depends only on that lane's operands. If an operand was never written,
  /// the result then counts as never written, since compilers emit computations whose results are
  /// unused. All other operations report an operand that was never written.
  bool lane_wise = false;
  /// The number of trailing operands that may be omitted.
  uint8_t optional = 0;
};
inline constexpr uint8_t kPredicate = 1, kAddress = 100, kAnySize = 101;

/// Returns the operation with this name, or null.
const Operation* FindOperation(std::string_view name);

inline constexpr uint32_t kConstant = 0xFFFFFFFF;
inline constexpr uint32_t kDiscarded = 0xFFFFFFFE;

/// An operand. Its elements for the 32 lanes are contiguous. A predicate is a mask of 32 bits.
struct Slot {
  uint32_t offset = 0;  // bytes into the warp's registers, or the constants
  uint32_t number = kConstant;  // number of the register
  uint8_t bytes = 0;            // bytes per lane, or kPredicate
  int64_t plus = 0;             // immediate offset of an address
};

struct Instruction {
  const Operation* operation = nullptr;
  const Slot* slots = nullptr;
  uint32_t count = 0;  // number of slots
  int32_t line = 0;    // line within the entry, for messages
  uint32_t target = 0;
  uint32_t guard = kConstant;  // offset of the predicate's register
  uint32_t guard_number = 0;
  bool negated = false;
  /// The bytes of a load that are used, as a mask. nvcc may load a vector that extends beyond the
  /// end of an array.
  uint32_t used_bytes = kAllLanes;
};

/// Registers that the hardware sets. They are the first registers of every kernel.
enum class Special : uint8_t { kTid, kNtid, kCtaid, kCtaidY, kNctaid, kCount };

struct Kernel {
  std::string name;
  std::vector<std::string> lines;  // lines of PTX, for messages
  std::vector<Instruction> code;
  std::vector<Slot> slots;
  std::vector<std::byte> constants;
  uint32_t register_bytes = 0;
  uint32_t registers = 0;
  uint32_t param_bytes = 0;
  uint32_t param_alignment = 1;
  uint32_t static_shared = 0;  // bytes of static shared memory
  uint32_t dynamic_at = 0;     // address of dynamic shared memory
  bool has_products = false;   // has warpgroup matmuls (ptx_warpgroups.h)
  uint32_t max_threads = 0;
};

/// Returns the offset of the register that holds `special`.
constexpr uint32_t SpecialOffset(Special special) {
  return static_cast<uint32_t>(special) * 4 * kLanes;
}

class Module {
 public:
  /// Adds the entries of a PTX file. Returns an error if an entry's name was added before.
  Status Add(std::string text);
  /// Returns the mangled names of all entries, sorted.
  std::vector<std::string> names() const;
  /// Returns an entry. The first call with its name parses it. Returns an error if the entry does
  /// not exist or contains unsupported PTX.
  Result<const Kernel*> Find(const std::string& name);

 private:
  struct Entry {
    std::string_view text;           // from its name to its closing brace
    uint32_t dynamic_alignment = 1;  // alignment of dynamic shared memory
    std::unique_ptr<Kernel> kernel;
  };
  std::vector<std::unique_ptr<std::string>> texts_;
  std::map<std::string, Entry> entries_;
};

// The operations of the PTX ISA, in seven tables. The comment of each table names its file. If the
// ISA only bounds the error of an approximation, the interpreter perturbs the exact result within
// that bound, by a hash of the argument. Tests therefore cannot depend on the results of a
// particular device.

std::vector<Operation> ArithmeticOperations();  // ptx_arithmetic.cc
std::vector<Operation> ConversionOperations();  // ptx_conversions.cc
std::vector<Operation> WarpOperations();        // ptx_warp_operations.cc
std::vector<Operation> WarpgroupOperations();   // ptx_warpgroups.cc
std::vector<Operation> MemoryOperations();      // ptx_memory_operations.cc
std::vector<Operation> MbarrierOperations();    // ptx_mbarriers.cc
std::vector<Operation> BulkCopyOperations();    // ptx_bulk_copies.cc

/// Returns the rows of all seven tables.
const std::vector<Operation>& Operations();

}  // namespace stowage::testing::ptx

#endif  // STOWAGE_TESTS_GPU_PTX_PTX_MODULE_H_
