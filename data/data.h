#ifndef STOWAGE_DATA_DATA_H_
#define STOWAGE_DATA_DATA_H_

// The umbrella header of data/, which provides data sets, their batches, shuffling and prefetching.

#include "data/batching.h"           // IWYU pragma: export
#include "data/contrastive_texts.h"  // IWYU pragma: export
#include "data/digits_data.h"        // IWYU pragma: export
#include "data/example_split.h"      // IWYU pragma: export
#include "data/examples.h"           // IWYU pragma: export
#include "data/image_data.h"         // IWYU pragma: export
#include "data/labeled_texts.h"      // IWYU pragma: export
#include "data/text_data.h"          // IWYU pragma: export
#include "data/token_shards.h"       // IWYU pragma: export

#endif  // STOWAGE_DATA_DATA_H_
