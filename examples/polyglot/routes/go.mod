module routes

go 1.24

require github.com/millstream/millstream/sdk/go v0.0.0-00010101000000-000000000000

require (
	github.com/philhofer/fwd v1.2.0 // indirect
	github.com/tinylib/msgp v1.6.5 // indirect
)

replace github.com/millstream/millstream/sdk/go => ../../../sdk/go
