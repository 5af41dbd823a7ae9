#ifndef STOWAGE_REPORT_MEMORY_MAP_H_
#define STOWAGE_REPORT_MEMORY_MAP_H_

// The arena as a picture of characters: addresses upwards, time to the right,
// a letter for each of the largest buffers and a sign for all others.
//
//   400 B | .AAAA
//   300 B | .AAAA      A  h1     200 B  [1, 5)  activations
//   200 B | ioooo      B  ...
//   100 B | wwwww
//
// A cell stands for a range of addresses over a range of times and shows what
// takes most of it; '.' where most of it is free.

#include <string>

#include "report/numbers.h"

namespace stowage {

struct MemoryMapOptions {
  int columns = 64;  // of cells, at most: no more than there are nodes
  int rows = 24;
  int letters = 16;  // largest buffers that get a letter, at most 26
                     // (the legend leaves out those too small to be seen)
};

/// The map and its legend; lines of at most 80 characters with the default
/// options. Empty for an empty arena or schedule. O(cells covered by buffers).
std::string MemoryMap(const Report& report,
                      const MemoryMapOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_REPORT_MEMORY_MAP_H_
