#ifndef STOWAGE_TESTS_GPU_PTX_PTX_MODULE_H_
#define STOWAGE_TESTS_GPU_PTX_PTX_MODULE_H_

// PTX as nvcc writes it, read into arrays that can be executed: registers and
// immediates become places in two blocks of bytes, names of instructions become
// functions, labels become indices. The parser accepts the PTX of our kernels:
// entries with one param, .reg and .shared declarations, labels, guards, vectors
// of operands, tensors with their coordinates, scopes, calls of the one driver function that
// our kernels call. Anything else is an error that quotes it. Find reads into the module, so
// one thread may use it at a time; returned kernels do not change.
//
//   Module module;
//   STOWAGE_RETURN_IF_ERROR(module.Add(text));     // finds the entries
//   STOWAGE_ASSIGN_OR_RETURN(const Kernel* kernel,
//                            module.Find("_Z7SoftmaxN..."));  // reads this one
//
// The meaning of instructions was written from NVIDIA's "Parallel Thread
// Execution ISA", version 9.0, and shares nothing with gpu/emulator.

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

/// What an instruction does to the control of its warp.
enum class Flow : uint8_t {
  kNext,     // goes on
  kWhole,    // goes on, and wants all 32 lanes
  kBranch,   // to a label
  kReturn,   // ends the lanes that execute it
  kBarrier,  // waits at a barrier of the block
  kArrive,   // comes to one, and goes on
  kWarpgroup,  // goes on with the other warps of its warpgroup, all 32 lanes of each
};

/// One kind of instruction.
struct Operation {
  std::string name;  // with all its suffixes: "setp.lt.s32"
  Handler run = nullptr;
  Flow flow = Flow::kNext;
  /// Bytes of each operand, the last for all that follow: 2, 4 or 8; kPredicate;
  /// kAddress, in brackets; kAnySize.
  std::vector<uint8_t> widths;
  /// A lane's result depends on its own operands alone. If one was never written, so
  /// is the result: compilers compute what is not used in the end. All others report
  /// such an operand.
  bool lane_wise = false;
  /// So many of the operands that `widths` ends with may be left out.
  uint8_t optional = 0;
};
inline constexpr uint8_t kPredicate = 1, kAddress = 100, kAnySize = 101;

/// The operation of this name, or null.
const Operation* FindOperation(std::string_view name);

inline constexpr uint32_t kConstant = 0xFFFFFFFF;
inline constexpr uint32_t kDiscarded = 0xFFFFFFFE;

/// An operand: its elements of the 32 lanes, side by side, or a mask of 32 bits.
struct Slot {
  uint32_t offset = 0;  // bytes into the warp's registers, or the constants
  uint32_t number = kConstant;  // of the register
  uint8_t bytes = 0;            // a lane; kPredicate
  int64_t plus = 0;             // of an address
};

struct Instruction {
  const Operation* operation = nullptr;
  const Slot* slots = nullptr;
  uint32_t count = 0;  // of slots
  int32_t line = 0;    // in the entry, for messages
  uint32_t target = 0;
  uint32_t guard = kConstant;  // offset of the predicate's register
  uint32_t guard_number = 0;
  bool negated = false;
  /// Of the bytes of a load, those that are used: nvcc may load a vector where an
  /// array ends within it.
  uint32_t used_bytes = kAllLanes;
};

/// Registers that the hardware sets. They come first in a kernel's registers.
enum class Special : uint8_t { kTid, kNtid, kCtaid, kCtaidY, kNctaid, kCount };

struct Kernel {
  std::string name;
  std::vector<std::string> lines;  // the text, for messages
  std::vector<Instruction> code;
  std::vector<Slot> slots;
  std::vector<std::byte> constants;
  uint32_t register_bytes = 0;
  uint32_t registers = 0;
  uint32_t param_bytes = 0;
  uint32_t param_alignment = 1;
  uint32_t static_shared = 0;  // bytes of the block, without the dynamic
  uint32_t dynamic_at = 0;     // where that begins
  bool has_products = false;   // of warpgroups (ptx_warpgroups.h)
  uint32_t max_threads = 0;
};

/// Where a register's number and offset are that holds `special`.
constexpr uint32_t SpecialOffset(Special special) {
  return static_cast<uint32_t>(special) * 4 * kLanes;
}

class Module {
 public:
  /// Finds the entries of a PTX file. Error: one that was there before.
  Status Add(std::string text);
  /// Names, as nvcc mangled them, sorted.
  std::vector<std::string> names() const;
  /// Reads the entry when it is first asked for. Errors: none of that name; what
  /// in it is not understood.
  Result<const Kernel*> Find(const std::string& name);

 private:
  struct Entry {
    std::string_view text;  // from its name to the brace that closes it
    uint32_t dynamic_alignment = 1;  // of the file's array
    std::unique_ptr<Kernel> kernel;
  };
  std::vector<std::unique_ptr<std::string>> texts_;
  std::map<std::string, Entry> entries_;
};

// The operations of the PTX ISA, in seven tables, each in the file that its comment names.
// Where the ISA leaves a result open, the exact one is avoided: an approximation is off by up
// to its bound, by a hash of its argument, so that no test depends on one device's results.

std::vector<Operation> ArithmeticOperations();  // ptx_arithmetic.cc
std::vector<Operation> ConversionOperations();  // ptx_conversions.cc
std::vector<Operation> WarpOperations();        // ptx_warp_operations.cc
std::vector<Operation> WarpgroupOperations();   // ptx_warpgroups.cc
std::vector<Operation> MemoryOperations();      // ptx_memory_operations.cc
std::vector<Operation> MbarrierOperations();    // ptx_mbarriers.cc
std::vector<Operation> BulkCopyOperations();    // ptx_bulk_copies.cc

/// All seven tables.
const std::vector<Operation>& Operations();

}  // namespace stowage::testing::ptx

#endif  // STOWAGE_TESTS_GPU_PTX_PTX_MODULE_H_
