#ifndef STOWAGE_BASE_INDEX_H_
#define STOWAGE_BASE_INDEX_H_

// Ids are signed, so that -1 can say "none" and differences mean something;
// containers count in size_t. Index takes an id to where it stands in a vector.
//
//   const ValueInfo& info = values[Index(id)];

#include <cstddef>
#include <cstdint>

namespace stowage {

/// Precondition: `id` is not negative.
constexpr size_t Index(int64_t id) { return static_cast<size_t>(id); }

}  // namespace stowage

#endif  // STOWAGE_BASE_INDEX_H_
