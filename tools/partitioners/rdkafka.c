/* Partitions as librdkafka's partitioners choose them: consistent (CRC-32), murmur2, fnv1a. With an argument: its version. */
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  (void)argv;
  if (argc > 1) {
    puts(rd_kafka_version_str());
    return 0;
  }
  char line[8192], key[4096], error[512];
  rd_kafka_t* client = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), error, sizeof(error));
  rd_kafka_topic_t* topic = rd_kafka_topic_new(client, "any", NULL);
  while (fgets(line, sizeof(line), stdin)) {
    char* space = strchr(line, ' ');
    size_t size = (size_t)(space - line) / 2;
    int partitions;
    for (size_t i = 0; i < size; ++i) {
      unsigned byte;
      sscanf(line + 2 * i, "%2x", &byte);
      key[i] = (char)byte;
    }
    sscanf(space, "%d", &partitions);
    printf("%d %d %d\n", rd_kafka_msg_partitioner_consistent(topic, key, size, partitions, NULL, NULL),
           rd_kafka_msg_partitioner_murmur2(topic, key, size, partitions, NULL, NULL),
           rd_kafka_msg_partitioner_fnv1a(topic, key, size, partitions, NULL, NULL));
  }
  rd_kafka_topic_destroy(topic);
  rd_kafka_destroy(client);
  return 0;
}
