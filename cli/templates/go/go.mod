module __NAME__

go 1.24

require github.com/millstream/millstream/sdk/go v0.1.0
