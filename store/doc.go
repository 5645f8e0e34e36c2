// Package store owns the messages on disk.
package store
