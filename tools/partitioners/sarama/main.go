// Partitions as Sarama's hash partitioner, its default, chooses them for records with a key.
package main

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	"github.com/IBM/sarama"
)

func main() {
	partitioner := sarama.NewHashPartitioner("any")
	lines := bufio.NewScanner(os.Stdin)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for lines.Scan() {
		text, count, _ := strings.Cut(lines.Text(), " ")
		key, err := hex.DecodeString(text)
		if err != nil {
			panic(err)
		}
		var partitions int32
		fmt.Sscan(count, &partitions)
		chosen, err := partitioner.Partition(&sarama.ProducerMessage{Key: sarama.ByteEncoder(key)}, partitions)
		if err != nil {
			panic(err)
		}
		fmt.Fprintln(out, chosen)
	}
}
