/*
 * tf_example — decodes tf.train.Example, the message in TensorFlow's records (protocol buffers,
 * tensorflow/core/example/example.proto and feature.proto):
 *
 *     Example    { Features features = 1; }
 *     Features   { map<string, Feature> feature = 1; }     // entries { key = 1, value = 2 }
 *     Feature    { BytesList bytes_list = 1; or FloatList float_list = 2; or Int64List = 3; }
 *     BytesList  { repeated bytes value = 1; }
 *     FloatList  { repeated float value = 1 [packed]; }     // also unpacked
 *     Int64List  { repeated int64 value = 1 [packed]; }     // also unpacked
 *
 * Strings are borrowed from the message, which a generated decoder would copy. Fields that these
 * messages do not have are errors: the message is then likely another one.
 */
#ifndef MILLRACE_CONVERT_RECORD_TF_EXAMPLE_H
#define MILLRACE_CONVERT_RECORD_TF_EXAMPLE_H

#include "convert/record/record.h"

/* Adds the features to a cleared record; each is a list. offset: of the message within the encoded
 * record, for errors. -EBADMSG: not an Example; -ENOTSUP: a SequenceExample. */
int tf_example_decode(const uint8_t *data, size_t bytes, uint64_t offset, struct record *record,
                      struct err *err);

#endif
