#ifndef STOWAGE_TESTS_GPU_PARAM_POINTERS_H_
#define STOWAGE_TESTS_GPU_PARAM_POINTERS_H_

// Which words of kernels' params are pointers, and whether any leads astray.
// Params are structs of any kind, of which a device sees bytes. So a program is
// captured twice, its blocks of memory lying elsewhere each time: a word that
// moved exactly as a block did points into that block, and one that stayed what
// it was must not be an address of anything. Nothing has to be declared, and
// nothing can be forgotten.
//
//   ParamPointers found = FindPointers(
//       first.captured(), second.captured(), {{first.arena(), second.arena()}});
//   for (const std::string& fault : found.faults) FAIL_CHECK(fault);

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "tests/gpu/fake_device.h"

namespace stowage::testing {

/// The same memory in each of two captures.
struct MovedBlock {
  std::span<const std::byte> first, second;
};

struct ParamPointer {
  size_t kernel = 0;  // which one
  size_t word = 0;    // of its params, 8 bytes each
  size_t block = 0;   // where it points to
  Bytes at = 0;       // and how far from the block's first byte
};

struct ParamPointers {
  std::vector<ParamPointer> pointers;
  /// One line each, with the kernel and the word: a pointer that moved with a
  /// block but lies beside it; a word that did not move and is the address of
  /// something in this process; one that changed otherwise; captures that differ
  /// in their kernels.
  std::vector<std::string> faults;
};

/// Numbers below 2^32 are no addresses. The upper 4 bytes of a word may be padding
/// and differ alone, as those of a pointer that moved do not; nor is a word that
/// stayed an address where its lower 4 bytes read as a count or as a float that
/// is neither tiny nor huge, which one address in eight does. So much goes
/// unseen, and only as long as it lies there. Other padding is a fault where it
/// holds stale bytes, which no initializer prevents everywhere: make such params of
/// fields of 4 bytes and more. Aborts unless every block moved, by a distance of its
/// own that is no multiple of 2^32.
ParamPointers FindPointers(std::span<const CapturedKernel> first,
                           std::span<const CapturedKernel> second,
                           const std::vector<MovedBlock>& blocks);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_PARAM_POINTERS_H_
