#ifndef STOWAGE_TOOLS_CONFIG_FILE_H_
#define STOWAGE_TOOLS_CONFIG_FILE_H_

// Options from a file, in TOML 1.0 (toml.io):
//
//   model = "gpt-nano"          # --model gpt-nano
//   no-decay = ["*.bias"]       # --no-decay '*.bias'
//   json = true                 # --json
//
//   [train]                     # of one subcommand
//   clip-norm = 1.0
//
// Values are strings, numbers in decimal, booleans, and arrays of these. What TOML has
// beside, and no option needs, is refused: dotted keys, inline tables, arrays of tables,
// dates, strings of several lines.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stowage::tools {

struct ConfigEntry {
  std::string table;  // empty: none
  std::string key = {};
  std::vector<std::string> values = {};  // without quotes; "true" or "false"
  bool is_array = false;
  bool is_boolean = false;
  int64_t line = 0;  // counts from 1
};

/// The entries of a file in their order. Error kInvalidArgument, naming the line: no TOML,
/// or some that is not read; a key that is there twice.
Result<std::vector<ConfigEntry>> ParseConfig(std::string_view text);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_CONFIG_FILE_H_
