#ifndef STOWAGE_IR_SOURCE_LOC_H_
#define STOWAGE_IR_SOURCE_LOC_H_

// A place in the user's source: what errors name, and what every value keeps, so
// that a report can say which line of the model takes the memory.
//
//   Value Linear(Value x, SourceLoc loc = SourceLoc::Current());

#include <string_view>

namespace stowage {

struct SourceLoc {
  const char* file = "";
  int line = 0;  // from 1; 0: no place

  bool is_known() const { return line > 0; }

  static constexpr SourceLoc Current(const char* file = __builtin_FILE(),
                                     int line = __builtin_LINE()) {
    return {file, line};
  }
};

/// The place that a file tells of; no place if the line is below 1. Keeps the
/// name of each source file once, for as long as the process lives.
SourceLoc KeptSourceLoc(std::string_view file, int line);

}  // namespace stowage

#endif  // STOWAGE_IR_SOURCE_LOC_H_
