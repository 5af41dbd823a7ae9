#ifndef STOWAGE_TEXT_POST_PROCESSOR_H_
#define STOWAGE_TEXT_POST_PROCESSOR_H_

// What the post-processor of a tokenizer.json puts around every text.
//
//   STOWAGE_RETURN_IF_ERROR(ReadPostProcessor(file["post_processor"], &parts));

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "text/text_template.h"
#include "text/tokenizer.h"

namespace stowage::text {

/// Sets prefix and suffix; null is none. Errors: kInvalidArgument for values of other
/// types and a token without an id; kUnsupported, with its name, for one that is not known.
Status ReadPostProcessor(const nlohmann::json& processor,
                         TokenizerParts* parts);

/// The special tokens that it puts around one text and around two, with types. Errors
/// likewise; kUnsupported for several that put something there, one behind the other.
Result<TextTemplate> ReadTextTemplate(const nlohmann::json& processor);

}  // namespace stowage::text

#endif  // STOWAGE_TEXT_POST_PROCESSOR_H_
